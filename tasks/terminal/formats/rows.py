"""Task sets as rows of a dataset (``datasets``): a local Parquet or JSON file, or a name on the Hugging Face hub.

A row has a task id and an instruction; the task's folder lies beside the rows, under its id. The row's instruction is the one
that the agent gets.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError, RequestError
from tasks.terminal.formats.foldertask import FolderTask
from tasks.terminal.formats.read import divide, is_task_folder, read_task

IDS = ("task_id", "id", "name")
INSTRUCTIONS = ("instruction", "description", "prompt")
SUFFIXES = (".parquet", ".json", ".jsonl")
_SPLITS = {"train": "train", "test": "heldout", "validation": "heldout", "heldout": "heldout"}


def read_rows(path: Path) -> dict[str, list[FolderTask]]:
    """Split -> tasks of a Parquet, JSON or JSON-lines file; splits by a column ``split`` where there is one."""
    return _divided(_rows_of(path), path, [path.parent, path.parent / "tasks"])


def read_hub(name: str) -> dict[str, list[FolderTask]]:
    """The same of a dataset on the hub, with the files beside its rows. Raises InfrastructureError without a connection."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        folder = Path(snapshot_download(name, repo_type="dataset"))
    except (RepositoryNotFoundError, HFValidationError):
        raise RequestError(
            f"--tasks {name}: no such folder, file or dataset on the hub; accepted: one of them"
        ) from None
    except Exception as error:  # the client raises what its transport raises
        raise InfrastructureError(f"--tasks {name}: the hub cannot be reached: {error}") from error
    files = sorted(
        p for suffix in SUFFIXES for p in folder.rglob(f"*{suffix}") if not _inside_a_task(p, folder)
    )
    if not files:
        raise RequestError(f"--tasks {name}: has no rows; accepted: a dataset with Parquet or JSON rows")
    rows: list[dict[str, Any]] = []
    for path in files:
        split = next((part for part in _SPLITS if path.name.startswith(part)), None)
        rows += [{**({"split": split} if split else {}), **row} for row in _rows_of(path)]
    return _divided(rows, folder, [folder, folder / "tasks"])


def _inside_a_task(path: Path, root: Path) -> bool:
    return any(is_task_folder(parent) for parent in path.parents if parent.is_relative_to(root))


def _rows_of(path: Path) -> list[dict[str, Any]]:
    from datasets import Dataset
    from datasets.exceptions import DatasetGenerationError

    if not path.is_file():
        raise RequestError(f"--tasks {path}: there is no such file; accepted: Parquet or JSON rows")
    with tempfile.TemporaryDirectory() as cache:
        try:
            read = Dataset.from_parquet if path.suffix == ".parquet" else Dataset.from_json
            return list(read(str(path), cache_dir=cache, keep_in_memory=True))
        except (DatasetGenerationError, OSError, ValueError, TypeError) as error:
            cause = error.__cause__ or error
            raise RequestError(f"{path}: cannot be read as rows: {str(cause).splitlines()[0]}") from None


def _divided(
    rows: Iterable[Mapping[str, Any]], source: Path, places: list[Path]
) -> dict[str, list[FolderTask]]:
    tasks: dict[str, list[FolderTask]] = {"train": [], "heldout": []}
    undivided: list[FolderTask] = []
    for number, row in enumerate(rows, 1):
        where = f"{source}, row {number}"
        task = _task(row, where, places)
        split = row.get("split")
        if split is None:
            undivided.append(task)
        elif split in _SPLITS:
            tasks[_SPLITS[split]].append(task)
        else:
            raise RequestError(f"{where}: split = {split!r}; accepted: {', '.join(_SPLITS)}")
    if undivided and any(tasks.values()):
        raise RequestError(f"{source}: some rows have a split and some have none; accepted: all or none")
    tasks = divide(undivided) if undivided else tasks
    names = [task.task_id for split in tasks.values() for task in split]
    if not names:
        raise RequestError(f"{source}: has no rows; accepted: at least one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RequestError(f"{source}: two rows are called {twice[0]}; accepted: task ids that differ")
    return tasks


def _task(row: Mapping[str, Any], where: str, places: list[Path]) -> FolderTask:
    task_id = _text(row, IDS, where)
    instruction = _text(row, INSTRUCTIONS, where)
    if "/" in task_id or task_id.startswith("."):
        raise RequestError(f"{where}: task id = {task_id!r}; accepted: the name of a folder beside the rows")
    folder = next((place / task_id for place in places if is_task_folder(place / task_id)), None)
    if folder is None:
        raise RequestError(f"{where}: there is no task folder {task_id} beside the rows; accepted: one")
    task = read_task(folder)
    fingerprint = hashlib.sha256(f"{task.fingerprint}\n{instruction}".encode()).hexdigest()
    return replace(task, instruction=instruction, fingerprint=fingerprint)


def _text(row: Mapping[str, Any], columns: tuple[str, ...], where: str) -> str:
    present = [column for column in columns if row.get(column) is not None]
    if not present:
        raise RequestError(f"{where}: has none of the columns {', '.join(columns)}; accepted: one of them")
    value = row[present[0]]
    if not isinstance(value, str) or not value.strip():
        raise RequestError(f"{where}: {present[0]} = {value!r}; accepted: a text")
    return value
