"""The quality gate's two files: the report on every task, and the manifest of the usable ones."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from harness.errors import RequestError
from tasks.terminal.formats.foldertask import REPORTS, FolderTask
from tasks.terminal.formats.reading import json_of, validated

REPORT, MANIFEST = REPORTS


class UsableTask(BaseModel):
    task_id: str
    fingerprint: str


class Manifest(BaseModel):
    """``source``: where the tasks are, relative to the manifest's folder where that is possible."""

    format: Literal["usable terminal tasks, version 1"]
    source: str
    tasks: list[UsableTask]


def write_manifest(folder: Path, source: str, tasks: Sequence[FolderTask]) -> Path:
    place = Path(source)
    relative = os.path.relpath(place, folder) if place.exists() else source
    content = {
        "format": "usable terminal tasks, version 1",
        "source": relative,
        "tasks": [{"task_id": task.task_id, "fingerprint": task.fingerprint} for task in tasks],
    }
    return write_json(folder / MANIFEST, content)


def read_manifest(path: Path) -> Manifest:
    """Raises RequestError."""
    return validated(Manifest, json_of(path.parent, path.name), str(path))


def usable(manifest: Manifest, path: Path, tasks: Sequence[FolderTask]) -> list[FolderTask]:
    """The tasks that the manifest lists. Raises RequestError where one is gone, or is not the one that was examined."""
    known = {task.task_id: task for task in tasks}
    for entry in manifest.tasks:
        task = known.get(entry.task_id)
        if task is None or task.fingerprint != entry.fingerprint:
            what = "is gone" if task is None else "has changed since it was examined"
            raise RequestError(
                f"{path}: task {entry.task_id} {what}; accepted: tasks as `bench tasks validate` found them (run it again)"
            )
    listed = {entry.task_id for entry in manifest.tasks}
    return [task for task in tasks if task.task_id in listed]


def write_json(path: Path, content: Any) -> Path:
    """In one step. Raises RequestError where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
                file.write("\n")
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise RequestError(
            f"{path}: cannot be written ({error.strerror}); accepted: --out and a folder that can"
        ) from error
    return path
