"""Layers: what a task's build changed, split into what is the agent's own and what is read-only, and kept by content hash.

The agent owns folders, never ``/`` or ``/etc`` itself: whoever can write there can replace what the verifier's programs load.
Every folder of ``STANDARD``, every other folder that the build made in ``/``, ``/usr/local`` where the build wrote there, and
the folders that it made in ``/etc`` and ``/run`` are file systems of the agent's own; single files and links in ``/``,
``/etc`` and ``/run`` are shown read-only.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import json
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError
from tasks.terminal.filetree import Entry
from tasks.terminal.formats.build import Built
from tasks.terminal.formats.plan import BuildFileError

STANDARD = ("/home", "/mnt", "/opt", "/root", "/srv", "/var")
"""Folders that every task's sandbox lets the agent write, besides ``/home/user`` and ``/tmp``."""
FIXED_LIMIT = 1 << 20
"""Bytes of read-only files at most."""
VERSION = 1
"""Counts up when what is built from the same instructions changes."""

_VERIFIERS = ("tests", "logs", "solution")
_LOADED = (
    "ssl",
    "ld.so.conf.d",
    "alternatives",
    "security",
    "pam.d",
    "ld.so.preload",
    "ld.so.conf",
    "ld.so.cache",
)


@dataclass(frozen=True, slots=True)
class Layer:
    """archive: a tar of what is the agent's own, unpacked at ``/``. writable, files, links: see ``sandbox.interface.Root``."""

    archive: bytes
    writable: tuple[str, ...]
    files: tuple[tuple[str, Entry], ...]
    links: tuple[tuple[str, str], ...]


def layer_of(built: Built) -> Layer:
    """Raises BuildFileError where the build wrote what no task may."""
    try:
        return _layer_of(built)
    except tarfile.TarError as error:
        raise BuildFileError(1, f"what the build left cannot be read: {error}") from None


def _layer_of(built: Built) -> Layer:
    writable: set[str] = set(STANDARD)
    files: list[tuple[str, Entry]] = []
    links: list[tuple[str, str]] = []
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(built.archive), mode="r:") as source,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in source:
            path = posixpath.normpath("/" + member.name)
            member.mode = built.modes.get("./" + path.lstrip("/"), member.mode)
            member.uid = member.gid = 1000
            member.uname = member.gname = "user"
            place = _place(path, member)
            if place == "fixed":
                _add_fixed(path, member, source, files, links)
            elif place:
                writable.add(place)
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    if sum(entry.size for _, entry in files) > FIXED_LIMIT:
        raise BuildFileError(1, f"more than {FIXED_LIMIT} bytes of files in /, /etc and /run; accepted: less")
    return Layer(out.getvalue(), tuple(sorted(writable - {"/tmp"})), tuple(files), tuple(links))


def _place(path: str, member: tarfile.TarInfo) -> str:
    """The writable folder that a path belongs to, ``fixed`` for read-only ones, empty for what is left out."""
    first, *rest = path.strip("/").split("/")
    if first in _VERIFIERS:
        if member.isdir():
            return ""
        raise BuildFileError(1, f"the build makes {path}; accepted: nothing below /{first}, the verifier's")
    if first == "usr":
        return "/usr/local" if len(rest) > 1 else ""
    if first in ("etc", "run"):
        if not rest:
            return ""
        if rest[0] in _LOADED:
            return "" if member.isdir() else "fixed"
        return f"/{first}/{rest[0]}" if member.isdir() or len(rest) > 1 else "fixed"
    return f"/{first}" if member.isdir() or rest else "fixed"


def _add_fixed(
    path: str,
    member: tarfile.TarInfo,
    source: tarfile.TarFile,
    files: list[tuple[str, Entry]],
    links: list[tuple[str, str]],
) -> None:
    if path.startswith("/etc/ld.so."):
        raise BuildFileError(1, f"the build makes {path}, which every program loads; accepted: other files")
    if member.issym():
        links.append((path, member.linkname))
    elif member.isreg() or member.islnk():
        extracted = source.extractfile(member)
        content = extracted.read() if extracted else b""
        files.append((path, Entry("file", member.mode, content=content, size=len(content))))
    else:
        raise BuildFileError(1, f"the build makes {path}, neither file, folder nor link; accepted: those")


def layer_key(parts: Mapping[str, Any]) -> str:
    """SHA-256 of everything that a layer is a function of."""
    text = json.dumps({"version": VERSION, **parts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "async-es-bench"


class LayerCache:
    """Layers on disk: one folder each, put in place in one step, so that a half-written one is never seen."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder() / "layers"

    def get(self, key: str) -> Layer | None:
        place = self._folder / key
        try:
            described = json.loads((place / "layer.json").read_text())
            archive = (place / "layer.tar").read_bytes()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InfrastructureError(f"{place}: cannot be read ({error}); remove it") from error
        if hashlib.sha256(archive).hexdigest() != described["sha256"]:
            raise InfrastructureError(f"{place}/layer.tar: is damaged; remove {place}")
        files = tuple((path, _entry(mode, content)) for path, mode, content in described["files"])
        links = tuple((path, target) for path, target in described["links"])
        return Layer(archive, tuple(described["writable"]), files, links)

    def put(self, key: str, layer: Layer) -> None:
        described = {
            "sha256": hashlib.sha256(layer.archive).hexdigest(),
            "writable": layer.writable,
            "files": [(p, e.mode, base64.b64encode(e.content or b"").decode()) for p, e in layer.files],
            "links": layer.links,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=self._folder))
            try:
                (temporary / "layer.json").write_text(json.dumps(described))
                (temporary / "layer.tar").write_bytes(layer.archive)
                temporary.rename(self._folder / key)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            if not (self._folder / key).exists():
                raise InfrastructureError(
                    f"{self._folder}: a layer cannot be kept: {error.strerror}"
                ) from error

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Only one process at a time makes a layer."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f".{key}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _entry(mode: int, content: str) -> Entry:
    data = base64.b64decode(content)
    return Entry("file", mode, content=data, size=len(data))
