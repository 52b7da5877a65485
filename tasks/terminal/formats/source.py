"""``--tasks``: the tasks of a folder, of rows, or of a manifest of usable ones; those that a run may use."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.errors import RequestError
from tasks.terminal.formats.foldertask import FolderTask, UnusableTask
from tasks.terminal.formats.machine import plan_of
from tasks.terminal.formats.manifest import MANIFEST, read_manifest, usable
from tasks.terminal.formats.read import divide, read_folder
from tasks.terminal.formats.rows import SUFFIXES, read_hub, read_rows

Splits = dict[str, list[FolderTask]]


def read_tasks(source: str) -> Splits:
    """Every task, usable or not. Raises RequestError for whatever is malformed."""
    path = Path(source)
    if path.is_dir():
        return read_folder(path)
    if path.suffix in SUFFIXES:
        return read_rows(path)
    if not path.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+", source) and not source.startswith("."):
        return read_hub(source)
    raise RequestError(
        f"--tasks {source}: not known; accepted: a folder of task folders, rows ({', '.join(SUFFIXES)}), a dataset's name on the hub, or {MANIFEST}"
    )


def usable_tasks(source: str) -> Splits:
    """What a run uses: the tasks of the manifest, where there is one. Raises RequestError, also for a task that cannot be used
    here as far as its build file tells."""
    path = Path(source)
    manifest_path = path / MANIFEST if path.is_dir() else path if _is_manifest(path) else None
    if manifest_path is None or not manifest_path.exists():
        splits = read_tasks(source)
        _check(splits)
        return splits
    manifest = read_manifest(manifest_path)
    if path.is_dir():
        origin = source
    else:
        beside = path.parent / manifest.source
        origin = str(beside) if beside.exists() else manifest.source
    splits = read_tasks(origin)
    everything = [task for tasks in splits.values() for task in tasks]
    kept = usable(manifest, manifest_path, everything)
    if not kept:
        raise RequestError(f"{manifest_path}: lists no usable task; accepted: at least one")
    names = {task.task_id for task in kept}
    filtered = {split: [task for task in tasks if task.task_id in names] for split, tasks in splits.items()}
    return filtered if all(filtered.values()) or not all(splits.values()) else divide(kept)


def _is_manifest(path: Path) -> bool:
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and str(content.get("format", "")).startswith("usable terminal tasks")


def _check(splits: Splits) -> None:
    for tasks in splits.values():
        for task in tasks:
            try:
                plan_of(task)
            except UnusableTask as error:
                raise RequestError(
                    f"{error}; `bench tasks validate` writes a manifest of the usable tasks ({MANIFEST}), which runs then use"
                ) from None
