"""Starts programs under another user id, from a thread of its own.

Two reasons for the thread. On Linux a user id belongs to a thread: the launcher's thread takes the sandbox's id for the
moment of the start, which saves the process that ``setpriv`` would be (a sixth of a sandbox's start), while vfork stays
possible, which ``subprocess``'s own ``user=`` rules out (a fork of a harness that holds a model copies its page tables). And
``bwrap --die-with-parent`` means the parent *thread*: this one lives as long as the launcher, whichever thread asks.
"""

from __future__ import annotations

import ctypes
import os
import platform
import random
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import InfrastructureError

# setgroups, setresgid, setresuid: the C library's own functions would change every thread.
_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_KEEP = 2**32 - 1


class Launcher:
    """One per backend. When the harness is root, every program gets a user id that nothing else has, so that the kernel's
    limits per user are limits per sandbox; otherwise programs run as the harness's own user."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sandbox-launcher")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._calls = _CALLS.get(platform.machine())
        self._drops = os.geteuid() == 0
        if self._drops and self._calls is None:
            raise InfrastructureError(
                f"user ids cannot be dropped on {platform.machine()}; run as another user"
            )
        self._ids = _unused_ids() if self._drops else range(0)
        self._random = random.SystemRandom()

    def start(self, command: Sequence[str], channel: int, files: Sequence[int]) -> subprocess.Popen[bytes]:
        """The program with an empty environment, ``channel`` as its standard streams and ``files`` inherited, nothing else;
        half a millisecond. Raises OSError when it cannot be executed."""
        return self._thread.submit(self._start_here, command, channel, files).result()

    def start_and_wait(
        self, command: Sequence[str], files: Sequence[int], timeout_s: float
    ) -> tuple[int, str]:
        """Exit status and what was printed. Raises OSError, or TimeoutError after having killed it."""

        def work() -> tuple[int, str]:
            ours, theirs = os.pipe()
            try:
                process = self._start_here(command, theirs, files)
            finally:
                os.close(theirs)
            with os.fdopen(ours, "rb") as output:
                try:
                    status = process.wait(timeout_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise TimeoutError(f"no end within {timeout_s:g} s") from None
                return status, output.read().decode(errors="replace").strip()

        return self._thread.submit(work).result()

    def _start_here(
        self, command: Sequence[str], channel: int, files: Sequence[int]
    ) -> subprocess.Popen[bytes]:
        if self._drops:
            self._become(self._random.choice(self._ids))
        try:
            return subprocess.Popen(
                command, stdin=channel, stdout=channel, stderr=channel, env={}, cwd="/", pass_fds=tuple(files)
            )
        finally:
            if self._drops:
                self._become(0)

    def _become(self, user: int) -> None:
        """Set this thread's effective and real ids. The saved ids stay 0, so that it can return; an executed program's saved
        ids are its effective ones, so that it cannot."""
        assert self._calls is not None
        setgroups, setresgid, setresuid = self._calls
        if user:
            self._call(setgroups, 0, 0)
            self._call(setresgid, user, user, _KEEP)
            self._call(setresuid, user, user, _KEEP)
        else:
            self._call(setresuid, 0, 0, _KEEP)
            self._call(setresgid, 0, 0, _KEEP)

    def _call(self, number: int, *arguments: int) -> None:
        if self._libc.syscall(number, *(ctypes.c_long(argument) for argument in arguments)) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"user ids cannot be dropped: {os.strerror(error)}")

    def close(self) -> None:
        """End the thread, and with it whatever it started that still lives."""
        self._thread.shutdown(wait=True)


def _unused_ids() -> range:
    """Ids that belong to nobody. A user namespace may map too few for that: then nobody's own."""
    mapped = sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return range(0x70000000, 0x71000000) if mapped > 0x71000000 else range(65534, 65535)
