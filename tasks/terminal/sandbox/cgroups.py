"""Limits on a sandbox as a whole (memory, processes), by cgroup v1 or v2, where this process may make one.

Each sandbox gets a cgroup of its own, named after the harness process, so that those of dead harnesses can be told and
swept. It is removed when the sandbox ends.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

_FOLDER = "async-es-bench"
_serial = itertools.count()


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A folder in which cgroups can be made, and which controllers act there. ``version`` 1 or 2."""

    version: int
    folder: Path
    controllers: tuple[str, ...]


class Cgroup:
    """One sandbox's cgroup (one folder per hierarchy)."""

    def __init__(self, hierarchies: tuple[Hierarchy, ...], memory_mb: int, pids: int) -> None:
        """Raises OSError when a folder cannot be made or a limit cannot be set; nothing is left then."""
        name = f"{_owner(os.getpid())}-{next(_serial)}"
        self._folders: list[tuple[Hierarchy, Path]] = []
        self._seen: dict[str, int] = {}
        try:
            for hierarchy in hierarchies:
                folder = hierarchy.folder / name
                folder.mkdir()
                self._folders.append((hierarchy, folder))
                self._limit(hierarchy, folder, memory_mb << 20, pids)
        except OSError:
            self.remove(patience_s=0)
            raise

    @staticmethod
    def _limit(hierarchy: Hierarchy, folder: Path, memory: int, pids: int) -> None:
        if "memory" in hierarchy.controllers:
            if hierarchy.version == 1:
                _put(folder / "memory.limit_in_bytes", memory)
                swap = folder / "memory.memsw.limit_in_bytes"
            else:
                _put(folder / "memory.max", memory)
                swap = folder / "memory.swap.max"
            if swap.exists():
                _put(swap, memory if hierarchy.version == 1 else 0)
        if "pids" in hierarchy.controllers:
            _put(folder / "pids.max", pids)

    def add(self, pid: int) -> None:
        """Move a process; those that it starts from now on stay with it."""
        for _, folder in self._folders:
            _put(folder / "cgroup.procs", pid)

    def hit(self) -> str | None:
        """Which limit was hit since the last call."""
        found = None
        for hierarchy, folder in self._folders:
            if "pids" in hierarchy.controllers and self._grew(folder / "pids.events", "max"):
                found = "process limit reached"
            if "memory" in hierarchy.controllers:
                file = "memory.oom_control" if hierarchy.version == 1 else "memory.events"
                if self._grew(folder / file, "oom_kill"):
                    return "memory limit reached"
        return found

    def _grew(self, file: Path, key: str) -> bool:
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == key:
                    before, self._seen[str(file)] = self._seen.get(str(file), 0), int(value)
                    return int(value) > before
        return False

    def remove(self, patience_s: float = 1.0) -> None:
        """Remove the folders; a process that has just died may hold one for a moment."""
        deadline = time.monotonic() + patience_s
        for _, folder in self._folders:
            while True:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() >= deadline:
                        break
                    time.sleep(0.002)
                else:
                    break
        self._folders.clear()


def hierarchies() -> tuple[Hierarchy, ...]:
    """Where this process can make cgroups; empty where it cannot. Sweeps what dead harnesses left."""
    found: list[Hierarchy] = []
    for version, folder, controllers in _candidates():
        try:
            if version == 2:
                _enable(folder, controllers)
            (folder / _FOLDER).mkdir(exist_ok=True)
            if version == 2:
                _enable(folder / _FOLDER, controllers)
            trial = folder / _FOLDER / f"{_owner(os.getpid())}-trial"
            trial.mkdir()
            trial.rmdir()
        except OSError:
            continue
        hierarchy = Hierarchy(version, folder / _FOLDER, controllers)
        if {c for h in found for c in h.controllers}.isdisjoint(controllers):
            found.append(hierarchy)
            sweep(hierarchy.folder)
    return tuple(found)


def sweep(folder: Path) -> None:
    """Remove the cgroups of harness processes that are no more."""
    for child in folder.iterdir():
        owner, separator, _ = child.name.rpartition("-")
        if separator and child.is_dir() and owner != _owner(int(owner.partition("-")[0])):
            with contextlib.suppress(OSError):
                child.rmdir()


def _owner(pid: int) -> str:
    """``pid-start time``: never equal for two processes of one boot."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return f"{pid}-gone"
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"


def _candidates() -> list[tuple[int, Path, tuple[str, ...]]]:
    """(version, folder, controllers) that might work, best first: below this process's own cgroup, else at the top."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path.lstrip("/")
    found: list[tuple[int, Path, tuple[str, ...]]] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup":
            names = tuple(c for c in ("memory", "pids") if c in options.split(","))
            if names:
                found.append((1, Path(where) / own.get(names[0], ""), names))
        elif kind == "cgroup2":
            available = _read_words(Path(where) / "cgroup.controllers")
            names = tuple(c for c in ("memory", "pids") if c in available)
            mine = Path(where) / own.get("", "")
            if names:
                found += [(2, folder, names) for folder in dict.fromkeys((mine, mine.parent, Path(where)))]
    return found


def _enable(folder: Path, controllers: tuple[str, ...]) -> None:
    """Let the controllers act on the children of a folder of cgroup v2."""
    enabled = _read_words(folder / "cgroup.subtree_control")
    for controller in controllers:
        if controller not in enabled:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _read_words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _put(file: Path, value: int) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
