"""Writes a generated task as a task folder: Endless Terminals' native layout, or Harbor's.

The exported final test is one self-contained pytest file that gives the same verdict as the declarative checks; it reads the
checks as data and the file system below ``TASK_ROOT`` (``/`` by default), without following links.
"""

from __future__ import annotations

import base64
import json
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from harness.errors import RequestError
from tasks.terminal.filetree import FileTree
from tasks.terminal.task import HOME, TerminalTask

Format = Literal["endless", "harbor"]


def export_task(task: TerminalTask, folder: Path, layout: Format) -> None:
    """Write ``task`` into the new folder ``folder``. Raises RequestError where it exists or cannot be written."""
    if folder.exists():
        raise RequestError(f"{folder}: exists; accepted: a new folder")
    content = endless(task) if layout == "endless" else harbor(task)
    try:
        for name, text in content.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".sh"):
                path.chmod(0o755)
    except OSError as error:
        raise RequestError(
            f"{folder}: cannot be written ({error.strerror}); accepted: a folder that can"
        ) from error


def endless(task: TerminalTask) -> dict[str, str]:
    """Relative path -> text of an Endless Terminals folder."""
    description = {"description": task.instruction, "truth": "\n".join(task.experts[0]), "name": task.task_id}
    container = [
        "Bootstrap: localimage",
        "From: ./ubuntu_22.04.sif",
        "",
        "%post",
        *(f"    {line}" for line in _build(task.files)),
        "",
        "%environment",
        f"    export HOME={HOME}",
        "",
        "%runscript",
        "    exec /bin/bash",
        "",
    ]
    return {
        "task.json": json.dumps(description, indent=2) + "\n",
        "test_initial_state.py": _test(task, initial=True),
        "test_final_state.py": _test(task, initial=False),
        "container.def": "\n".join(container),
    }


def harbor(task: TerminalTask) -> dict[str, str]:
    """Relative path -> text of a Harbor folder."""
    settings = "\n".join(
        [
            'version = "0.1"',
            "",
            "[metadata]",
            f'difficulty = "{("easy", "medium", "hard")[min(task.difficulty, 3) - 1]}"',
            f"category = {json.dumps(task.family)}",
            "",
            "[verifier]",
            "timeout_sec = 300",
            "",
            "[agent]",
            "timeout_sec = 300",
            "",
            "[environment]",
            "build_timeout_sec = 600",
            "cpus = 1",
            "memory_mb = 512",
            "storage_mb = 1024",
            "",
        ]
    )
    build = "\n".join(_build(task.files))
    dockerfile = f"FROM debian:bookworm-slim\nRUN <<'BUILD'\nset -e\n{build}\nBUILD\nWORKDIR {HOME}\n"
    test = (
        "#!/bin/bash\nmkdir -p /logs/verifier\n"
        "if python3 -m pytest -q /tests/test_final_state.py; then echo 1 > /logs/verifier/reward.txt; "
        "else echo 0 > /logs/verifier/reward.txt; fi\n"
    )
    return {
        "task.toml": settings,
        "instruction.md": task.instruction + "\n",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test,
        "tests/test_final_state.py": _test(task, initial=False),
        "tests/test_initial_state.py": _test(task, initial=True),
        "solution/solve.sh": "\n".join(["#!/bin/bash", f"cd {HOME}", *task.experts[0], ""]),
    }


def _build(tree: FileTree) -> list[str]:
    """Shell lines that make the initial files, without a here-document."""
    script = [f"mkdir -p {HOME}"]
    for path, entry in sorted(tree.items()):
        quoted = shlex.quote(path)
        if entry.kind == "dir":
            script += [f"mkdir -p {quoted}", f"chmod {entry.mode:o} {quoted}"]
        elif entry.kind == "link":
            script.append(f"ln -s {shlex.quote(entry.target or '')} {quoted}")
        else:
            data = base64.b64encode(entry.content or b"").decode()
            script += [f"echo {data} | base64 -d > {quoted}", f"chmod {entry.mode:o} {quoted}"]
    return [*script, f"chown -R 1000:1000 {HOME} || true"]


def _test(task: TerminalTask, *, initial: bool) -> str:
    template = (files("tasks.terminal.formats") / "final_test.py.txt").read_text()
    checks = [_exported(check.to_json(), task) for check in task.checks]
    if initial:
        checks = [
            {"check": "file_bytes", "path": path, "base64": base64.b64encode(entry.content or b"").decode()}
            for path, entry in sorted(task.files.items())
            if entry.kind == "file"
        ]
    return template.replace("CHECKS_AS_JSON", json.dumps(json.dumps(checks)))


def _exported(check: dict[str, Any], task: TerminalTask) -> dict[str, Any]:
    """``unchanged`` refers to the initial tree: in the file it stands with the content and mode."""
    if check["check"] != "unchanged":
        return check
    entry = task.files[check["path"]]
    return {
        "check": "file_bytes",
        "path": check["path"],
        "base64": base64.b64encode(entry.content or b"").decode(),
        "mode": entry.mode,
    }
