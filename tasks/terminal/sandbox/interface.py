"""What a sandbox offers, whatever isolates it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tasks.terminal.filetree import Entry, FileTree


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one sandbox may use.

    memory_mb: of all its processes and its files together, where a cgroup can be made; otherwise of each process.
    pids: processes and threads at once.
    file_size_mb: largest file that a process may write.
    disk_mb: size of each writable file system (``/home/user``, ``/tmp``, ``/tests``, ``/dev/shm``).
    open_files: per process.
    output_bytes: how much of a command's output is kept, half from its head and half from its tail.
    """

    memory_mb: int = 512
    pids: int = 128
    file_size_mb: int = 64
    disk_mb: int = 64
    open_files: int = 1024
    output_bytes: int = 16384


@dataclass(frozen=True, slots=True)
class Root:
    """What stands around ``/home/user`` and ``/tmp``, which are always the agent's own.

    writable: further folders of the agent's own; each is a file system of the limits' ``disk_mb``.
    files: read-only files of the task in folders that are not the agent's, such as ``/etc``.
    links: symbolic links in such folders: (path, target).
    open: ``/`` itself is writable, and ``/usr/local`` begins empty: to build a layer, never where a verifier runs.
    tools: a folder of the harness's machine, shown read-only as ``/run/verifier``.
    """

    writable: tuple[str, ...] = ()
    files: tuple[tuple[str, Entry], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    open: bool = False
    tools: Path | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of a command.

    exit_code: as bash reports it (128 + signal for a killed shell); None when it timed out or could not be started.
    output: standard output and error in the order written, decoded with replacement, without ANSI sequences and carriage
        returns; where more than ``output_bytes`` were written, a line in the middle says how much is missing.
    total_bytes: how much was written. duration_s: seconds from start to end of the shell, measured inside.
    limit: which limit explains a failure, as far as it is known.
    """

    exit_code: int | None
    output: str
    total_bytes: int
    timed_out: bool
    limit: str | None
    duration_s: float


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The verdict of a verifier is its exit status as the kernel gave it (None: it ran out of time), never its text."""

    exit_status: int | None
    output: str
    timed_out: bool


class SnapshotTooLarge(Exception):
    """The agent left more files than may be read: its work cannot be right, but the sandbox did nothing wrong."""


class Sandbox(Protocol):
    """One episode's machine. Every method raises InfrastructureError when the sandbox is gone or does not answer."""

    async def run(self, command: str | bytes, timeout_s: float) -> CommandResult:
        """Run a command in a fresh bash that continues the shell state of the earlier ones. After ``timeout_s`` seconds
        every process of the sandbox is killed, jobs in the background included; the sandbox lives on."""
        ...

    async def write(self, tree: FileTree) -> None:
        """Make files, folders and links; missing parents too. Raises EnvironmentFault where that is not possible."""
        ...

    async def freeze(self) -> None:
        """Kill every process of the agent; ``run`` is refused from now on."""
        ...

    async def snapshot(
        self,
        roots: Sequence[str],
        max_entries: int = 10_000,
        max_bytes_per_file: int = 1 << 20,
        max_total_bytes: int = 16 << 20,
    ) -> FileTree:
        """Everything under the roots, as it stands after ``freeze``. No link is followed, no device opened. Larger files
        come without content. Raises SnapshotTooLarge beyond ``max_entries``."""
        ...

    async def verify(self, files: FileTree, argv: Sequence[str], timeout_s: float) -> VerifyResult:
        """After ``freeze``: empty ``/tests`` (and ``/logs``, where there is one), put ``files`` there, and run ``argv`` with a
        clean environment. Raises InfrastructureError when the verifier cannot be run."""
        ...

    async def close(self) -> None:
        """End the sandbox and wait until nothing of it is left. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a trial start found. ``what``: a sentence, with what to install where it does not work. ``limits_enforced``:
    a phrase for each limit that was seen to hold."""

    works: bool
    what: str
    limits_enforced: tuple[str, ...] = ()


class SandboxBackend(Protocol):
    """A way to isolate. ``name`` is what ``--sandbox`` calls it."""

    name: str

    async def start(self, limits: SandboxLimits, root: Root = Root()) -> Sandbox: ...

    def probe(self) -> ProbeResult:
        """Try it, in at most a few seconds."""
        ...

    def close(self) -> None:
        """Give back what the backend itself holds."""
        ...
