"""Which backend a name stands for. ``auto`` takes the first that works, and never one that isolates less than it says."""

from __future__ import annotations

from harness.errors import InfrastructureError, RequestError
from tasks.terminal.sandbox.interface import SandboxBackend

NAMES = ("auto", "bubblewrap")


def select_backend(name: str) -> SandboxBackend:
    """A backend that was tried and works. Raises RequestError for an unknown name, InfrastructureError with what to install
    where the one asked for (or, for ``auto``, every one) does not work here."""
    if name not in NAMES:
        raise RequestError(f"--sandbox {name}: unknown; one of {', '.join(NAMES)}")
    from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend

    try:
        return BubblewrapBackend()
    except InfrastructureError as error:
        raise InfrastructureError(f"no sandbox works here: {error}") from error
