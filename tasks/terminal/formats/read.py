"""Where tasks come from: a folder of task folders, rows of a dataset, or a manifest of usable tasks."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.errors import RequestError
from tasks.terminal.formats import endless, harbor
from tasks.terminal.formats.foldertask import FolderTask

SPLITS = ("train", "heldout")


def read_task(folder: Path) -> FolderTask:
    """A task folder in either layout. Raises RequestError."""
    if any((folder / name).exists() for name in harbor.MARKERS):
        return harbor.read_harbor(folder)
    if any((folder / name).exists() for name in endless.MARKERS):
        return endless.read_endless(folder)
    raise RequestError(
        f"{folder}: is no task folder; accepted: task.json and container.def (Endless Terminals), or task.toml and instruction.md (Harbor)"
    )


def is_task_folder(folder: Path) -> bool:
    return folder.is_dir() and any((folder / name).exists() for name in (*harbor.MARKERS, *endless.MARKERS))


def read_folder(folder: Path) -> dict[str, list[FolderTask]]:
    """Split -> tasks, by the folders ``train`` and ``heldout`` where there are any, otherwise by :func:`divide`."""
    if not folder.is_dir():
        raise RequestError(f"--tasks {folder}: there is no such folder; accepted: a folder of task folders")
    given = [name for name in SPLITS if (folder / name).is_dir() and not is_task_folder(folder / name)]
    if given:
        splits = {name: _tasks_below(folder / name) if name in given else [] for name in SPLITS}
    else:
        tasks = [read_task(folder)] if is_task_folder(folder) else _tasks_below(folder)
        splits = divide(tasks)
    names = [task.task_id for tasks in splits.values() for task in tasks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RequestError(f"{folder}: two tasks are called {twice[0]}; accepted: names that differ")
    if not names:
        raise RequestError(
            f"{folder}: has no task folders; accepted: folders of Endless Terminals or Harbor tasks"
        )
    return splits


def _tasks_below(folder: Path) -> list[FolderTask]:
    return [read_task(path) for path in sorted(folder.iterdir()) if is_task_folder(path)]


def divide(tasks: list[FolderTask]) -> dict[str, list[FolderTask]]:
    """A fifth of the tasks, at least one, is held out: those whose id has the smallest SHA-256. Order is by id."""
    ranked = sorted(tasks, key=lambda task: hashlib.sha256(task.task_id.encode()).hexdigest())
    held = {task.task_id for task in ranked[: -(-len(tasks) // 5)]}
    ordered = sorted(tasks, key=lambda task: task.task_id)
    return {
        "train": [task for task in ordered if task.task_id not in held],
        "heldout": [task for task in ordered if task.task_id in held],
    }
