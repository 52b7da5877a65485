"""What a sandbox needs of the harness to judge a task: pytest, as a folder that is shown read-only, and its Python."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness.errors import InfrastructureError

PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
OPTIONAL = ("py", "tomli", "exceptiongroup", "typing_extensions")
MOUNT = "/run/verifier"
RUN_PYTEST = f"{MOUNT}/bin/run_pytest.py"
_PYTHON_PROGRAM = f"""#!/bin/sh
case "$*" in "-m pytest "*/tests/*) shift 2; exec PYTHON -I -S {RUN_PYTEST} "$PWD" "$@" ;; esac
exec PYTHON "$@"
"""
PROGRAMS = {
    **dict.fromkeys(("python3", "python"), _PYTHON_PROGRAM),
    **dict.fromkeys(("pytest", "py.test"), f'#!/bin/sh\nexec {MOUNT}/bin/python3 -m pytest "$@"\n'),
    "uvx": '#!/bin/sh\nwhile [ $# -gt 0 ] && [ "$1" != pytest ]; do shift; done\nexec "$@"\n',
    "uv": '#!/bin/sh\ncase "$1" in run) exec uvx "$@" ;; esac\n',
    **dict.fromkeys(("apt", "apt-get", "pip", "pip3"), "#!/bin/sh\n"),
}
"""What a ``test.sh`` calls to have pytest, which is there already; pytest on files of /tests is the isolated one."""
_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


@cache
def sandbox_python() -> str:
    """The Python that sandboxes see. Raises InfrastructureError where there is none."""
    for path in _PYTHONS:
        if os.access(path, os.X_OK):
            return path
    raise InfrastructureError(
        f"task folders need one of {', '.join(_PYTHONS)}; install python3 (apt install python3)"
    )


@cache
def verifier_folder() -> Path:
    """A folder with pytest and what it imports, readable by every user, made once from the harness's own installation."""
    sources = [path for name in (*PACKAGES, *OPTIONAL) if (path := _source(name)) is not None]
    programs = _programs()
    digest = hashlib.sha256(repr(programs).encode())
    for source in sources:
        for file in _python_files(source):
            digest.update(f"{file.relative_to(source.parent)}\0".encode() + file.read_bytes())
    name = f"async-es-bench-verifier-{os.geteuid()}-{digest.hexdigest()[:16]}"
    place = Path(tempfile.gettempdir()) / name
    if not place.exists():
        _make(place, sources, programs)
    status = place.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022 or not stat.S_ISDIR(status.st_mode):
        raise InfrastructureError(f"{place}: is not ours; remove it")
    return place


def _programs() -> dict[str, str]:
    """Name -> text of what lies in the folder's ``bin``."""
    own = files("tasks.terminal.formats").joinpath("run_pytest.py").read_text(encoding="utf-8")
    programs = {name: text.replace("PYTHON", sandbox_python()) for name, text in PROGRAMS.items()}
    return {**programs, "run_pytest.py": own}


def _source(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        if name in OPTIONAL:
            return None
        raise InfrastructureError(f"task folders need {name}, which is missing (pip install pytest)")
    path = Path(spec.origin)
    return path.parent if path.name == "__init__.py" else path


def _python_files(source: Path) -> list[Path]:
    return sorted(source.rglob("*.py")) if source.is_dir() else [source]


def _make(place: Path, sources: list[Path], programs: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        made = Path(temporary) / "made"
        for source in sources:
            for file in _python_files(source):
                target = made / file.relative_to(source.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        (made / "bin").mkdir()
        for name, text in programs.items():
            (made / "bin" / name).write_text(text)
        # Without compiled files each verifier would compile pytest anew: the folder is read-only to it.
        compile_command = [sandbox_python(), "-I", "-m", "compileall", "-q", "."]
        subprocess.run(compile_command, cwd=made, check=False, capture_output=True, env={})
        for path in (made, *made.rglob("*")):
            path.chmod(0o755)
        try:
            made.rename(place)
        except OSError:
            if not place.exists():  # otherwise another process was faster
                raise
