"""A file system as data: what a task starts from, and what a sandbox gives back to be checked.

Both are the same type, so that a checker never touches a live file system: the sandbox's guest reads the files inside the
sandbox, after the agent's processes are gone, without following any link; checks are then pure functions of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or symbolic link.

    mode: permission bits only (``0o644``). content: bytes of a file (None when it exceeds the reader's limit, and for
    everything that is no regular file). target: of a link, as written, never resolved. size: bytes. links: hard-link count.
    """

    kind: Literal["file", "dir", "link", "other"]
    mode: int
    content: bytes | None = None
    target: str | None = None
    size: int = 0
    links: int = 1


FileTree = Mapping[str, Entry]
"""Absolute normalised path -> entry."""


def text_file(text: str, mode: int = 0o644) -> Entry:
    data = text.encode()
    return Entry("file", mode, content=data, size=len(data))


def folder(mode: int = 0o755) -> Entry:
    return Entry("dir", mode)


def link(target: str) -> Entry:
    return Entry("link", 0o777, target=target)
