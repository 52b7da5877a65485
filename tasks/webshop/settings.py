"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.webshop.goals import GoalSource
from tasks.webshop.pages import PER_PAGE
from tasks.webshop.reward import Compat


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """hosts: names that a request's Host may have, whatever its port. session_limit: sessions at once. session_ttl_s: an idle
    session ends after so many seconds. body_limit: bytes of a request's body."""

    goals: GoalSource = "synthetic"
    compat: Compat = "fixed"
    results_per_page: int = PER_PAGE
    show_attributes: bool = False
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    session_limit: int = 10_000
    session_ttl_s: float = 1800.0
    body_limit: int = 64 * 1024
