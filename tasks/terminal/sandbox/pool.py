"""Sandboxes started ahead of need, so that an episode does not wait for one. Each serves one episode and is then gone."""

from __future__ import annotations

import asyncio
import contextlib

from harness.errors import InfrastructureError
from tasks.terminal.sandbox.interface import Sandbox, SandboxBackend, SandboxLimits

ATTEMPTS = 4
FIRST_PAUSE_S = 0.1


class SandboxPool:
    """Keeps up to ``ahead`` sandboxes ready. Whoever acquires one closes it; the pool closes those nobody took."""

    def __init__(
        self,
        backend: SandboxBackend,
        ahead: int,
        limits: SandboxLimits | None = None,
        attempts: int = ATTEMPTS,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._backend = backend
        self._ahead = ahead
        self._limits = limits or SandboxLimits()
        self._attempts = attempts
        self._pause_s = first_pause_s
        self._starting: list[asyncio.Task[Sandbox]] = []
        self._open = False

    async def open(self) -> None:
        """Begin to start sandboxes."""
        self._open = True
        self._fill()

    async def acquire(self) -> Sandbox:
        """The sandbox started longest ago, or a new one. Raises InfrastructureError when none starts in a few tries."""
        if not self._open:
            raise InfrastructureError("the pool of sandboxes is closed")
        task = self._starting.pop(0) if self._starting else self._begin()
        self._fill()
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await _close_when_started(task)
            raise

    async def close(self) -> None:
        """Close those that nobody took. Acquired sandboxes stay with their owners."""
        self._open = False
        waiting, self._starting = self._starting, []
        for task in waiting:
            task.cancel()
        await asyncio.gather(*(_close_when_started(task) for task in waiting))

    def _fill(self) -> None:
        while len(self._starting) < self._ahead:
            self._starting.append(self._begin())

    def _begin(self) -> asyncio.Task[Sandbox]:
        task = asyncio.ensure_future(self._start())
        task.add_done_callback(_mark_retrieved)
        return task

    async def _start(self) -> Sandbox:
        for attempt in range(self._attempts):
            try:
                return await self._backend.start(self._limits)
            except InfrastructureError:
                if attempt + 1 == self._attempts:
                    raise
                await asyncio.sleep(self._pause_s * 2**attempt)
        raise AssertionError("unreachable")


async def _close_when_started(task: asyncio.Task[Sandbox]) -> None:
    with contextlib.suppress(asyncio.CancelledError, InfrastructureError):
        sandbox = await task
        await sandbox.close()


def _mark_retrieved(task: asyncio.Task[Sandbox]) -> None:
    """A failure is raised by whoever acquires this sandbox; nobody may."""
    if not task.cancelled():
        task.exception()
