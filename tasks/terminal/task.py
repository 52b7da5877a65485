"""A terminal task: instruction, initial files, checks, and how to solve it (which never reaches the agent)."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.terminal.checks import Check
from tasks.terminal.filetree import Entry, FileTree

HOME = "/home/user"


@dataclass(frozen=True)
class Part:
    """One sub-task. ``steps`` solve it, one command per turn; ``others`` are further solutions; ``mistakes`` are plausible wrong
    ones, the most usual first. Paths of files and checks are absolute; commands run in the home folder."""

    family: str
    instruction: str
    files: FileTree
    steps: tuple[str, ...]
    mistakes: tuple[tuple[str, ...], ...]
    checks: tuple[Check, ...]
    others: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class TerminalTask:
    """``parts`` is empty for tasks that were read from a folder."""

    task_id: str
    family: str
    difficulty: int
    instruction: str
    parts: tuple[Part, ...] = ()

    @cached_property
    def files(self) -> FileTree:
        return {path: entry for part in self.parts for path, entry in part.files.items()}

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        return tuple(check for part in self.parts for check in part.checks)

    @cached_property
    def experts(self) -> tuple[tuple[str, ...], ...]:
        """Solutions: the canonical one, then one for each other solution of a part."""
        canonical = [part.steps for part in self.parts]
        return (_join(canonical), *self._varied(canonical, [part.others for part in self.parts]))

    @cached_property
    def flawed(self) -> tuple[tuple[str, ...], ...]:
        """Wrong solutions: each mistake of each part, and stopping before the last part."""
        canonical = [part.steps for part in self.parts]
        varied = self._varied(canonical, [part.mistakes for part in self.parts])
        return (*varied, _join(canonical[:-1]))

    @staticmethod
    def _varied(
        canonical: list[tuple[str, ...]], variants: list[tuple[tuple[str, ...], ...]]
    ) -> tuple[tuple[str, ...], ...]:
        return tuple(
            _join([*canonical[:i], variant, *canonical[i + 1 :]])
            for i, choices in enumerate(variants)
            for variant in choices
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of everything that makes the task."""
        return _sha256(
            {
                "family": self.family,
                "difficulty": self.difficulty,
                "instruction": self.instruction,
                "files": _plain(self.files),
                "checks": [check.to_json() for check in self.checks],
                "experts": self.experts,
                "flawed": self.flawed,
            }
        )

    @cached_property
    def content_key(self) -> str:
        """SHA-256 of what the agent meets: two tasks with the same key are the same task."""
        return _sha256({"instruction": self.instruction, "files": _plain(self.files)})


def _join(parts: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(command for part in parts for command in part)


def _plain(files: FileTree) -> dict[str, list[Any]]:
    return {path: _entry(entry) for path, entry in sorted(files.items())}


def _entry(entry: Entry) -> list[Any]:
    content = base64.b64encode(entry.content).decode() if entry.content is not None else None
    return [entry.kind, entry.mode, content, entry.target]


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def verdict(task: TerminalTask, final: FileTree) -> bool:
    """Whether every check of the task holds on the final file system."""
    return all(check.holds(final, task.files) for check in task.checks)
