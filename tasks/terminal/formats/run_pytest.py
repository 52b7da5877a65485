"""Runs pytest as a verifier: ``python3 -I -S run_pytest.py FOLDER ARGUMENTS``; or, with ``--missing`` in place of the folder,
prints which of the modules named tests could not import. Runs inside a sandbox; standard library only.

-I and -S leave out the environment, the user's site and sitecustomize (which Debian keeps in /etc). pytest comes from the
folder above this file; configuration and plugins are taken from /tests alone. Exit status 100: pytest is not there.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys


def prepare() -> None:
    """Close this process's memory to those of the same user, and say where modules come from."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    sys.dont_write_bytecode = True
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    local = f"/usr/local/lib/{version}"
    sys.path[:0] = [packages]
    sys.path += [f"{local}/dist-packages", f"{local}/site-packages", "/usr/lib/python3/dist-packages"]


def main(folder: str, arguments: list[str]) -> int:
    try:
        import pytest
    except ImportError as error:
        print("pytest cannot be imported:", error, flush=True)
        return 100
    if os.path.isdir(folder):
        os.chdir(folder)
    if "--ctrf" in arguments:  # a report of a plugin's that nobody reads here
        at = arguments.index("--ctrf")
        del arguments[at : at + 2]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    isolated = ["--rootdir=/tests", "--confcutdir=/tests", "-p", "no:cacheprovider", "--color=no"]
    return int(pytest.main(["-q", *isolated, *arguments]))


if __name__ == "__main__":
    prepare()
    if sys.argv[1] == "--missing":
        print(*(name for name in sys.argv[2:] if importlib.util.find_spec(name) is None), flush=True)
        sys.exit(0)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
