"""The frozen lists: a SHA-256 per task, one over all of them, and the content keys that training must avoid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, overload

from harness.errors import EnvironmentFault
from tasks.terminal.generator.generate import FAMILIES_SPLIT, HELD_OUT_SPLIT, SEED, TRAIN_SPLIT, generate
from tasks.terminal.task import TerminalTask

SIZES = {TRAIN_SPLIT: 2048, HELD_OUT_SPLIT: 256, FAMILIES_SPLIT: 64}


class TaskList(Sequence[TerminalTask]):
    """The tasks of one split, generated when they are asked for. Indices beyond the frozen list of ``train`` are allowed through
    :meth:`beyond`."""

    def __init__(self, split: str, seed: int = SEED) -> None:
        self._split = split
        self._seed = seed

    def __len__(self) -> int:
        return SIZES[self._split]

    @overload
    def __getitem__(self, index: int) -> TerminalTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[TerminalTask]: ...
    def __getitem__(self, index: int | slice) -> TerminalTask | list[TerminalTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.beyond(index % len(self))

    def beyond(self, index: int) -> TerminalTask:
        """Task ``index``, also past the frozen list."""
        avoid = held_out_keys() if self._split == TRAIN_SPLIT else ()
        return generate(self._seed, self._split, index, avoid)


@lru_cache(maxsize=1)
def load_manifest() -> dict[str, Any]:
    """The committed manifest."""
    return dict(json.loads((files("tasks.terminal.generator") / "manifest.json").read_text()))


@lru_cache(maxsize=1)
def held_out_keys() -> frozenset[str]:
    return frozenset(load_manifest()["held_out_keys"])


def build_manifest() -> dict[str, Any]:
    """What the committed manifest must be: generates every list anew."""
    lists: dict[str, list[TerminalTask]] = {}
    keys: set[str] = set()
    for split in (HELD_OUT_SPLIT, FAMILIES_SPLIT, TRAIN_SPLIT):
        tasks = []
        for index in range(SIZES[split]):
            task = generate(SEED, split, index, keys)
            tasks.append(task)
            if split != TRAIN_SPLIT:
                keys.add(task.content_key)
        lists[split] = tasks
    hashes = {split: {task.task_id: task.fingerprint for task in tasks} for split, tasks in lists.items()}
    return {
        "format": 1,
        "seed": SEED,
        "sha256": hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest(),
        "held_out_keys": sorted(keys),
        "tasks": hashes,
    }


def verify_manifest() -> None:
    """Raises EnvironmentFault where the generator no longer makes the frozen tasks."""
    fresh, frozen = build_manifest(), load_manifest()
    for split, hashes in frozen["tasks"].items():
        for task_id, sha in hashes.items():
            if fresh["tasks"][split].get(task_id) != sha:
                raise EnvironmentFault(
                    f"tasks/terminal/generator/manifest.json: {task_id} is no longer the task that was frozen"
                )
    if fresh["sha256"] != frozen["sha256"]:
        raise EnvironmentFault(
            "tasks/terminal/generator/manifest.json: the lists differ from the frozen ones"
        )


def main() -> None:
    """``python -m tasks.terminal.generator.manifest``: write the manifest anew."""
    import sys

    json.dump(build_manifest(), sys.stdout, indent=0, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
