"""The files that a build may copy: those below its context folder, without tests, truth and solutions."""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from tasks.terminal.filetree import Entry
from tasks.terminal.formats.plan import BuildFileError

PRIVATE = ("task.json", "test_initial_state.py", "test_final_state.py", "solutions")
"""Names directly in a context that never reach a build: conversions of Endless Terminals tasks leave some of them there."""
FILE_LIMIT = 64 << 20


class Context:
    """Copies without following any link, as Docker does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def copy(self, source: str, destination: str, workdir: str, line: int) -> dict[str, Entry]:
        """What ``COPY source destination`` makes. Raises BuildFileError."""
        return self.copy_all([source], destination, workdir, line)

    def copy_all(self, sources: list[str], destination: str, workdir: str, line: int) -> dict[str, Entry]:
        into_folder = destination.endswith("/") or destination in (".", "..")
        target = posixpath.normpath(posixpath.join(workdir, destination))
        found = [(name, path) for source in sources for name, path in self._matches(source, line)]
        if len(found) > 1 and not into_folder:
            raise BuildFileError(
                line, f"several sources and the destination {destination}; accepted: a folder, ending in /"
            )
        tree: dict[str, Entry] = {}
        for name, path in found:
            if path.is_dir() and not path.is_symlink():
                tree.setdefault(target, Entry("dir", 0o755))
                for child in self._below(path):
                    inner = posixpath.join(target, child.relative_to(path).as_posix())
                    tree[inner] = self._entry(child, line)
            else:
                tree[posixpath.join(target, posixpath.basename(name)) if into_folder else target] = (
                    self._entry(path, line)
                )
        tree.pop("/", None)
        return tree

    def _matches(self, source: str, line: int) -> list[tuple[str, Path]]:
        name = posixpath.normpath(source.lstrip("/") or ".")
        if name == ".." or name.startswith("../"):
            raise BuildFileError(line, f"{source} lies outside the build's folder; accepted: files below it")
        if name == ".":
            return [(".", self._folder)]
        parts = name.split("/")
        matches = [(".", self._folder)]
        for part in parts:
            wild = any(character in part for character in "*?[")
            matches = [
                (posixpath.join(parent, child), path / child)
                for parent, path in matches
                for child in (self._children(path) if wild else [part])
                if (fnmatch.fnmatchcase(child, part) if wild else os.path.lexists(path / child))
            ]
            for _, path in matches:
                if path.is_symlink() and part != parts[-1]:
                    raise BuildFileError(line, f"{source} goes through a link; accepted: folders and files")
        private = [found for found, _ in matches if posixpath.normpath(found).split("/")[0] in PRIVATE]
        if private:
            raise BuildFileError(
                line, f"{source} would show tests or truth to the agent; accepted: other files"
            )
        if not matches:
            raise BuildFileError(line, f"{source}: there is no such file in the build's folder")
        return matches

    def _children(self, folder: Path) -> list[str]:
        names = sorted(os.listdir(folder)) if folder.is_dir() and not folder.is_symlink() else []
        return [name for name in names if not (folder == self._folder and name in PRIVATE)]

    def _below(self, folder: Path) -> Iterator[Path]:
        for name in self._children(folder):
            child = folder / name
            yield child
            if child.is_dir() and not child.is_symlink():
                yield from self._below(child)

    @staticmethod
    def _entry(path: Path, line: int) -> Entry:
        status = path.lstat()
        mode = status.st_mode & 0o7777
        if path.is_symlink():
            return Entry("link", 0o777, target=os.readlink(path))
        if path.is_dir():
            return Entry("dir", mode)
        if not path.is_file() or status.st_size > FILE_LIMIT:
            raise BuildFileError(
                line, f"{path.name} cannot be copied; accepted: files of at most {FILE_LIMIT} bytes"
            )
        return Entry("file", mode, content=path.read_bytes(), size=status.st_size)
