"""A task that was read from a folder: what the agent is told, how its machine is built, how its work is judged.

Nothing of ``truth``, ``tests``, ``initial_tests`` or ``solution`` is ever written into a sandbox in which the agent may still
act: the tests reach it after the freeze, the solution only in the quality gate.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tasks.terminal.filetree import FileTree

Layout = Literal["endless", "harbor"]


class UnusableTask(Exception):
    """The task is well-formed, but cannot be had here: an instruction that is not known, needs the network, or fails."""

    def __init__(self, task_id: str, file: str, line: int | None, reason: str) -> None:
        self.task_id, self.file, self.line, self.reason = task_id, file, line, reason
        where = f"{file}, line {line}" if line is not None else file
        super().__init__(f"task {task_id}: {where}: {reason}")


@dataclass(frozen=True, slots=True)
class PhaseLimits:
    """Seconds for building, for the whole episode, and for the verifier; megabytes of a sandbox. None: the suite's default."""

    build_s: float = 600.0
    agent_s: float | None = None
    verifier_s: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None


@dataclass(frozen=True, slots=True)
class Verifier:
    """``pytest``: run these files of ``/tests`` by pytest, the verdict is the exit status. ``script``: run ``/tests/test.sh``,
    which leaves ``/logs/verifier/reward.json`` or ``reward.txt``."""

    kind: Literal["pytest", "script"]
    targets: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """How the task is solved: ``commands`` for the agent's shell, after ``files`` are there."""

    commands: tuple[str, ...]
    files: FileTree = field(default_factory=dict)


@dataclass(frozen=True)
class FolderTask:
    """``build_file`` is relative to ``folder``; ``context`` is the folder from which it may copy. ``difficulty`` 0: not stated."""

    task_id: str
    family: str
    difficulty: int
    instruction: str
    layout: Layout
    folder: Path
    build_file: str
    build_text: str = field(repr=False)
    context: Path
    tests: FileTree = field(repr=False)
    verifier: Verifier
    limits: PhaseLimits
    fingerprint: str
    initial_tests: FileTree | None = field(default=None, repr=False)
    solution: Solution | None = field(default=None, repr=False)
    truth: str | None = field(default=None, repr=False)


REPORTS = ("tasks-report.json", "usable-tasks.json")
"""What the quality gate writes, possibly beside a task's own files."""


def folder_fingerprint(folder: Path) -> str:
    """SHA-256 of every file below the folder: relative path, whether it can be executed, content; links as such."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in REPORTS:
            continue
        if path.is_symlink():
            kind, content = "l", str(path.readlink()).encode()
        elif path.is_file():
            kind, content = "x" if path.stat().st_mode & 0o100 else "f", path.read_bytes()
        else:
            continue
        digest.update(f"{kind}{len(name)}:{name}{len(content)}:".encode() + content)
    return digest.hexdigest()
