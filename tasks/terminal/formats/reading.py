"""Reading the files of a task folder, with errors that name folder, file, field and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import RequestError
from tasks.terminal.filetree import Entry, FileTree

TEST_FILE_LIMIT = 8 << 20
"""Bytes of one test file at most."""

Model = TypeVar("Model", bound=BaseModel)


def text_of(folder: Path, name: str) -> str:
    """Raises RequestError where the file is missing, is no file of this folder, or no UTF-8."""
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise RequestError(f"{path}: leads out of the task's folder; accepted: a file in it")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RequestError(f"{folder}: {name} is missing; accepted: a task folder that has it") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: byte {error.start} is no UTF-8; accepted: a text file") from None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None


def json_of(folder: Path, name: str) -> Any:
    try:
        return json.loads(text_of(folder, name))
    except json.JSONDecodeError as error:
        raise RequestError(
            f"{folder / name}: not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None


def validated(model: type[Model], value: Any, source: str) -> Model:
    """``value`` as a model. Raises RequestError with source, field and value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise RequestError(f"{source}: {where} is missing; accepted: a value for it") from None
        shown = repr(first["input"])
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"{source}: {where or 'content'} = {shown}: {message}") from None


def tree_of(folder: Path, mount: str) -> FileTree:
    """The files below a folder as they shall stand below ``mount``. Links must stay within the folder, and are followed."""
    tree: dict[str, Entry] = {}
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        if not path.resolve().is_relative_to(root):
            raise RequestError(f"{path}: leads out of {folder}; accepted: links within it")
        if path.is_file():
            name = f"{mount}/{path.relative_to(folder).as_posix()}"
            tree[name] = file_entry(path)
    return tree


def file_entry(path: Path) -> Entry:
    """Raises RequestError beyond TEST_FILE_LIMIT."""
    status = path.stat()
    if status.st_size > TEST_FILE_LIMIT:
        raise RequestError(f"{path}: {status.st_size} bytes; accepted: at most {TEST_FILE_LIMIT}")
    return Entry(
        "file", 0o755 if status.st_mode & 0o100 else 0o644, content=path.read_bytes(), size=status.st_size
    )
