"""Writes a task that was read from a folder as a folder of either layout."""

from __future__ import annotations

import base64
import json
import posixpath
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import RequestError
from tasks.terminal.filetree import Entry
from tasks.terminal.formats.export import Format
from tasks.terminal.formats.foldertask import REPORTS, FolderTask, UnusableTask
from tasks.terminal.formats.machine import plan_of
from tasks.terminal.formats.plan import BASE_PATH, Plan, Step


def convert_task(task: FolderTask, folder: Path, layout: Format) -> None:
    """Into the new folder ``folder``: a copy where the layout stays. Raises RequestError where it exists or cannot be written,
    and for a task that the other layout cannot express."""
    if folder.exists():
        raise RequestError(f"{folder}: exists; accepted: a new folder")
    try:
        if layout == task.layout:
            shutil.copytree(task.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(*REPORTS))
            return
        content = _endless(task) if layout == "endless" else _harbor(task)
        for name, data in content.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
            if name.endswith(".sh"):
                path.chmod(0o755)
    except UnusableTask as error:
        raise RequestError(f"{error}; accepted: a task that can be built") from None
    except OSError as error:
        raise RequestError(
            f"{folder}: cannot be written ({error.strerror}); accepted: a folder that can"
        ) from error


def _harbor(task: FolderTask) -> dict[str, str | bytes]:
    plan = plan_of(task)
    name = "/tests/test_final_state.py"
    environment = "".join(f"ENV {key}={json.dumps(value)}\n" for key, value in plan.environment.items())
    # What Apptainer runs before every command, Docker has no word for: bash reads it at the start of the agent's shell.
    entry = plan.entry.strip("\n")
    if entry:
        environment += (
            f"RUN cat > /etc/task-environment <<'ENTRY'\n{entry}\nENTRY\nENV BASH_ENV=/etc/task-environment\n"
        )
    settings = [
        'version = "0.1"\n',
        "[metadata]",
        f"category = {json.dumps(task.family)}\n",
        "[verifier]",
        f"timeout_sec = {task.limits.verifier_s or 300:g}\n",
        "[agent]",
        f"timeout_sec = {task.limits.agent_s or 600:g}\n",
        "[environment]",
        f"build_timeout_sec = {task.limits.build_s:g}\n",
    ]
    content: dict[str, str | bytes] = {
        "task.toml": "\n".join(settings),
        "instruction.md": task.instruction + "\n",
        "environment/Dockerfile": (
            f"FROM ubuntu:22.04\nRUN <<'BUILD'\n{_script(plan)}BUILD\n{environment}WORKDIR {plan.workdir}\n"
        ),
        "tests/test.sh": (
            f"#!/bin/bash\nmkdir -p /logs/verifier\nif python3 -m pytest -q {name}; then\n"
            "  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n"
        ),
        "tests/test_final_state.py": task.tests[name].content or b"",
    }
    for path, entry_ in (task.initial_tests or {}).items():
        content["tests/" + posixpath.basename(path)] = entry_.content or b""
    if task.solution:
        content["solution/solve.sh"] = "\n".join(
            ["#!/bin/bash", f"cd {plan.workdir}", *task.solution.commands, ""]
        )
    return content


def _endless(task: FolderTask) -> dict[str, str | bytes]:
    name = "/tests/test_final_state.py"
    if task.verifier.kind != "pytest" or set(task.tests) - {"/tests/test.sh"} != {name}:
        raise RequestError(
            f"task {task.task_id}: its verifier is more than test_final_state.py; accepted: --format harbor"
        )
    if task.initial_tests is None:
        raise RequestError(
            f"task {task.task_id}: has no test of the initial state; accepted: --format harbor"
        )
    plan = plan_of(task)
    exports = "".join(f"    export {key}={shlex.quote(value)}\n" for key, value in plan.environment.items())
    described = {"description": task.instruction, "truth": task.truth or "", "name": task.task_id}
    post = "".join(f"{line}\n" for line in _script(plan).split("\n")[:-1])
    return {
        "task.json": json.dumps(described, indent=2) + "\n",
        "container.def": (
            f"Bootstrap: localimage\nFrom: ./ubuntu_22.04.sif\n\n%post\n{post}\n%environment\n{exports}"
            f"    cd {shlex.quote(plan.workdir)}\n"
        ),
        "test_final_state.py": task.tests[name].content or b"",
        "test_initial_state.py": next(iter(task.initial_tests.values())).content or b"",
    }


def _script(plan: Plan) -> str:
    """One shell script of all steps; the first that fails ends it."""
    return "set -e\n" + "".join(_step(step, number) for number, step in enumerate(plan.steps))


def _step(step: Step, number: int) -> str:
    lines = [line for path, entry in sorted(step.files.items()) for line in _written(path, entry)]
    lines += [f"mkdir -p {shlex.quote(to)} && tar -C {shlex.quote(to)} -xf {at}" for at, to in step.archives]
    if step.argv:
        lines.append(_run(step, number))
    return "".join(f"{line}\n" for line in lines)


def _run(step: Step, number: int) -> str:
    argv = [word for word in step.argv if word != "-ev"] + (["-e"] if "-ev" in step.argv else [])
    words = " ".join(["env", *_assignments(step.environment), shlex.join(argv)])
    prefix = f"cd {shlex.quote(step.workdir)} && {words}"
    if step.script is None:
        return f"({prefix})"
    end = f"STEP_{number}_ENDS"
    return f"({prefix} /dev/stdin) <<'{end}'\n{step.script.rstrip(chr(10))}\n{end}"


def _assignments(environment: Mapping[str, str]) -> list[str]:
    """What differs from a build's own environment; additions to PATH as such."""
    quoted = {name: shlex.quote(value) for name, value in environment.items() if name not in ("LANG", "PATH")}
    path = environment.get("PATH", BASE_PATH)
    if path != BASE_PATH:
        quoted["PATH"] = "$PATH".join(shlex.quote(part) if part else "" for part in path.split(BASE_PATH))
    return [f"{name}={value}" for name, value in quoted.items()]


def _written(path: str, entry: Entry) -> list[str]:
    quoted = shlex.quote(path)
    if entry.kind == "dir":
        return [f"mkdir -p {quoted}", f"chmod {entry.mode:o} {quoted}"]
    parent = f"mkdir -p {shlex.quote(posixpath.dirname(path))}"
    if entry.kind == "link":
        return [parent, f"ln -sfn {shlex.quote(entry.target or '')} {quoted}"]
    data = base64.b64encode(entry.content or b"").decode()
    return [parent, f"echo {data} | base64 -d > {quoted}", f"chmod {entry.mode:o} {quoted}"]
