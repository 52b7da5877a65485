"""Declarative checks on a final file system: frozen values, pure functions of a :class:`~tasks.terminal.filetree.FileTree`.

No check follows a link: a link at a checked path is not a file, and a path below a link does not exist. Text is compared
without its trailing newlines. An archive is parsed in memory with bounds; what cannot be parsed does not hold.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tasks.terminal.filetree import Entry, FileTree

ARCHIVE_LIMIT = 1 << 20
"""Bytes of an archive member that are read at most."""


def _file(tree: FileTree, path: str) -> Entry | None:
    entry = _entry(tree, path)
    return entry if entry is not None and entry.kind == "file" else None


def _entry(tree: FileTree, path: str) -> Entry | None:
    """The entry at a path of which no parent is a link."""
    parts = path.split("/")
    for end in range(2, len(parts)):
        parent = tree.get("/".join(parts[:end]))
        if parent is not None and parent.kind != "dir":
            return None
    return tree.get(path)


def _text(entry: Entry | None) -> str | None:
    if entry is None or entry.content is None:
        return None
    return entry.content.decode("utf-8", errors="replace").rstrip("\n")


@dataclass(frozen=True, slots=True)
class Check:
    """Base. ``holds(tree, initial)``: the final tree, and the one that the task started from."""

    kind: ClassVar[str] = ""

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        raise AssertionError("a check says what it checks")

    def to_json(self) -> dict[str, Any]:
        return {"check": type(self).kind, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True)
class FileIs(Check):
    """The file holds exactly this text."""

    path: str
    text: str
    kind: ClassVar[str] = "file_is"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        return _text(_file(tree, self.path)) == self.text.rstrip("\n")


@dataclass(frozen=True, slots=True)
class HasLine(Check):
    """The file has a line equal to this one."""

    path: str
    line: str
    kind: ClassVar[str] = "has_line"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        text = _text(_file(tree, self.path))
        return text is not None and self.line in text.split("\n")


@dataclass(frozen=True, slots=True)
class NumberNear(Check):
    """The file holds one number, within ``tolerance`` of ``value``."""

    path: str
    value: float
    tolerance: float
    kind: ClassVar[str] = "number_near"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        try:
            return abs(float(_text(_file(tree, self.path)) or "") - self.value) <= self.tolerance
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Absent(Check):
    """Nothing is there."""

    path: str
    kind: ClassVar[str] = "absent"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        return _entry(tree, self.path) is None


@dataclass(frozen=True, slots=True)
class IsFolder(Check):
    path: str
    kind: ClassVar[str] = "is_folder"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _entry(tree, self.path)
        return entry is not None and entry.kind == "dir"


@dataclass(frozen=True, slots=True)
class FolderHolds(Check):
    """The folder's direct entries have exactly these names."""

    path: str
    names: tuple[str, ...]
    kind: ClassVar[str] = "folder_holds"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _entry(tree, self.path)
        prefix = self.path + "/"
        below = {p[len(prefix) :].split("/")[0] for p in tree if p.startswith(prefix)}
        return entry is not None and entry.kind == "dir" and sorted(below) == sorted(self.names)


@dataclass(frozen=True, slots=True)
class HasMode(Check):
    """A file or folder has exactly these permission bits."""

    path: str
    mode: int
    kind: ClassVar[str] = "has_mode"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _entry(tree, self.path)
        return entry is not None and entry.kind in ("file", "dir") and entry.mode == self.mode


@dataclass(frozen=True, slots=True)
class LinkTo(Check):
    """A symbolic link with this target, as written, or the same target as an absolute path."""

    path: str
    target: str
    kind: ClassVar[str] = "link_to"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _entry(tree, self.path)
        parent = self.path.rsplit("/", 1)[0]
        return (
            entry is not None
            and entry.kind == "link"
            and entry.target in (self.target, f"{parent}/{self.target}")
        )


@dataclass(frozen=True, slots=True)
class HardLinked(Check):
    """Two paths with the same content, each a hard link of another."""

    path: str
    other: str
    kind: ClassVar[str] = "hard_linked"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        a, b = _file(tree, self.path), _file(tree, self.other)
        return (
            a is not None and b is not None and a.links >= 2 and a.links == b.links and a.content == b.content
        )


@dataclass(frozen=True, slots=True)
class Unchanged(Check):
    """The file is as the task gave it: content and mode."""

    path: str
    kind: ClassVar[str] = "unchanged"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        now, before = _file(tree, self.path), _file(initial, self.path)
        return (
            now is not None
            and before is not None
            and (now.content, now.mode) == (before.content, before.mode)
        )


@dataclass(frozen=True, slots=True)
class GzipOf(Check):
    """A gzip file of exactly this text."""

    path: str
    text: str
    kind: ClassVar[str] = "gzip_of"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _file(tree, self.path)
        if entry is None or entry.content is None:
            return False
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(entry.content)) as file:
                data = file.read(ARCHIVE_LIMIT)
        except (OSError, EOFError, zlib.error):
            return False
        return data.decode("utf-8", errors="replace").rstrip("\n") == self.text.rstrip("\n")


@dataclass(frozen=True, slots=True)
class ArchiveHolds(Check):
    """A tar (plain or gzip) or zip archive with a regular member of this name and text (a leading ``./`` is ignored)."""

    path: str
    member: str
    text: str
    kind: ClassVar[str] = "archive_holds"

    def holds(self, tree: FileTree, initial: FileTree) -> bool:
        entry = _file(tree, self.path)
        if entry is None or entry.content is None:
            return False
        data = _member(entry.content, self.member)
        return data is not None and data.decode("utf-8", errors="replace").rstrip("\n") == self.text.rstrip(
            "\n"
        )


def _member(archive: bytes, name: str) -> bytes | None:
    """Bytes of a regular member, at most ARCHIVE_LIMIT; None where there is none."""
    try:
        if zipfile.is_zipfile(io.BytesIO(archive)):
            with zipfile.ZipFile(io.BytesIO(archive)) as zipped, zipped.open(name) as file:
                return file.read(ARCHIVE_LIMIT)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as bundle:
            for number, member in enumerate(bundle):
                if number > 1000:
                    return None
                if member.isreg() and member.name.removeprefix("./") == name:
                    extracted = bundle.extractfile(member)
                    return extracted.read(ARCHIVE_LIMIT) if extracted is not None else None
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        OSError,
        EOFError,
        zlib.error,
        KeyError,
        RuntimeError,
        ValueError,
    ):
        return None
    return None


KINDS: dict[str, type[Check]] = {
    cls.kind: cls
    for cls in (
        FileIs,
        HasLine,
        NumberNear,
        Absent,
        IsFolder,
        FolderHolds,
        HasMode,
        LinkTo,
        HardLinked,
        Unchanged,
        GzipOf,
        ArchiveHolds,
    )
}


def from_json(value: Mapping[str, Any]) -> Check:
    """Inverse of :meth:`Check.to_json`."""
    fields = {
        key: tuple(item) if isinstance(item, list) else item for key, item in value.items() if key != "check"
    }
    return KINDS[value["check"]](**fields)
