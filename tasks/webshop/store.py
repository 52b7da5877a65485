"""The open sessions of a server: apart from each other, bounded in number, dropped when they have been idle for long."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tasks.webshop.session import Session


class StoreFull(Exception):
    """As many sessions are open as may be, and none has been idle for long."""


@dataclass(slots=True)
class Entry:
    """``used_s``: when it was last asked for, on the store's clock."""

    session: Session
    used_s: float


class SessionStore:
    """``limit``: sessions at once. ``ttl_s``: an idle session ends after so many seconds. ``clock``: seconds, never backwards.

    The longest idle come first, so that what has expired is found without a search.
    """

    def __init__(self, limit: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._limit, self._ttl_s, self._clock = limit, ttl_s, clock
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        self.expire()
        return len(self._entries)

    def expire(self) -> None:
        """Drop every session whose time is over."""
        oldest = self._clock() - self._ttl_s
        while self._entries and next(iter(self._entries.values())).used_s < oldest:
            self._entries.popitem(last=False)

    def make_room(self) -> None:
        """Raises StoreFull where there is no room for another session."""
        self.expire()
        if len(self._entries) >= self._limit:
            raise StoreFull(f"{len(self._entries)} sessions are open; accepted: {self._limit} at once")

    @staticmethod
    def new_key() -> str:
        """A name that nobody can guess."""
        return secrets.token_urlsafe(16)

    def add(self, key: str, session: Session) -> None:
        """Raises StoreFull."""
        self.make_room()
        self._entries[key] = Entry(session, self._clock())

    def get(self, key: str) -> Session | None:
        """The session, whose time starts anew; None for one that is unknown or over."""
        self.expire()
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used_s = self._clock()
        self._entries.move_to_end(key)
        return entry.session

    def drop(self, key: str) -> bool:
        """False where there is none."""
        return self._entries.pop(key, None) is not None
