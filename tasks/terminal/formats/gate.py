"""The quality gate: a task is usable when its machine can be built, its initial test passes, its final test fails on the
untouched machine, and its solution, where there is one, makes the final test pass."""

from __future__ import annotations

import ast
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import FileTree
from tasks.terminal.formats.foldertask import FolderTask, UnusableTask, Verifier
from tasks.terminal.formats.harbor import SOLUTION
from tasks.terminal.formats.judging import Judgement, judge, missing_modules
from tasks.terminal.formats.machine import Machines
from tasks.terminal.sandbox.interface import SandboxLimits

ATTEMPTS = 2
COMMAND_S = 300.0
EPISODE_S = 600.0
VERIFIER_S = 300.0


@dataclass(frozen=True, slots=True)
class Finding:
    """``checks``: build, initial, untouched, solution -> passed, failed, or absent (the task has none)."""

    task_id: str
    layout: str
    usable: bool
    reason: str = ""
    file: str | None = None
    line: int | None = None
    checks: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class _Rejected(Exception):
    """The check that a task did not pass, and what was seen."""

    def __init__(self, check: str, reason: str, file: str | None = None) -> None:
        self.check, self.reason, self.file = check, reason, file
        super().__init__(reason)


async def examine_all(
    machines: Machines,
    tasks: Sequence[FolderTask],
    concurrency: int,
    progress: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """One finding per task, in their order."""
    gate = asyncio.Semaphore(concurrency)

    async def one(task: FolderTask) -> Finding:
        async with gate:
            finding = await examine(machines, task)
        progress(finding)
        return finding

    return list(await asyncio.gather(*(one(task) for task in tasks)))


async def examine(machines: Machines, task: FolderTask) -> Finding:
    """Never raises for a defect of the task. A sandbox that fails twice makes the task not usable now, and says so."""
    started = time.perf_counter()
    checks: dict[str, str] = {}

    def finding(usable: bool, reason: str = "", file: str | None = None, line: int | None = None) -> Finding:
        seconds = round(time.perf_counter() - started, 3)
        return Finding(task.task_id, task.layout, usable, reason, file, line, dict(checks), seconds)

    for attempt in range(ATTEMPTS):
        checks.clear()
        try:
            await _pass_all(machines, task, checks)
        except UnusableTask as error:
            checks["build"] = "failed"
            return finding(False, error.reason, error.file, error.line)
        except _Rejected as error:
            checks[error.check] = "failed"
            return finding(False, error.reason, error.file)
        except EnvironmentFault as error:
            return finding(False, str(error))
        except InfrastructureError as error:
            if attempt + 1 == ATTEMPTS:
                return finding(False, f"could not be examined: {error}")
        else:
            return finding(True)
    raise AssertionError("unreachable")


async def _pass_all(machines: Machines, task: FolderTask, checks: dict[str, str]) -> None:
    await machines.layer(task)
    checks["build"] = "passed"
    if task.initial_tests is None:
        checks["initial"] = "absent"
    else:
        initial = await _judged(machines, task, task.initial_tests, initial=True)
        if not initial.solved:
            raise _Rejected("initial", f"the initial test fails: {_end(initial)}", "test_initial_state.py")
        checks["initial"] = "passed"
    untouched = await _judged(machines, task, task.tests)
    if untouched.solved:
        raise _Rejected("untouched", "the final test passes although nothing was done")
    checks["untouched"] = "passed"
    if task.solution is None:
        checks["solution"] = "absent"
        return
    solved = await _judged(machines, task, task.tests, solve=True)
    if not solved.solved:
        raise _Rejected("solution", f"the final test fails after the solution: {_end(solved)}")
    checks["solution"] = "passed"


async def _judged(
    machines: Machines, task: FolderTask, tests: FileTree, initial: bool = False, solve: bool = False
) -> Judgement:
    """The verdict on a fresh machine, or on a solved one."""
    extra = (SOLUTION,) if solve and task.solution and task.solution.files else ()
    sandbox, plan = await machines.start(task, SandboxLimits(), extra)
    try:
        if solve and task.solution:
            await sandbox.write(task.solution.files)
            deadline = time.monotonic() + (task.limits.agent_s or EPISODE_S)
            for command in task.solution.commands:
                await sandbox.run(command, max(0.1, min(COMMAND_S, deadline - time.monotonic())))
        await sandbox.freeze()
        if not solve:
            missing = await missing_modules(sandbox, imported_modules(tests))
            if missing:
                raise _Rejected(
                    "initial" if initial else "untouched", f"the tests import {', '.join(missing)}, not there"
                )
        verifier = task.verifier
        if initial:
            verifier = Verifier("pytest", tuple(tests))
        timeout_s = task.limits.verifier_s or VERIFIER_S
        return await judge(sandbox, tests, verifier, plan.environment, plan.workdir, timeout_s)
    finally:
        await sandbox.close()


def imported_modules(tests: FileTree) -> list[str]:
    """Top-level modules that the Python files among the tests import at their start, but for the standard library's and
    their own. What is tried, or imported within a function, may be missing."""
    own = {path.rsplit("/", 1)[-1].removesuffix(".py") for path in tests}
    own |= {path.split("/")[2] for path in tests if path.count("/") > 2}
    found: set[str] = set()
    for path, entry in tests.items():
        if not path.endswith(".py"):
            continue
        try:
            body = ast.parse(entry.content or b"").body
        except (SyntaxError, ValueError):
            continue
        for node in body:
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return sorted(found - own - set(sys.stdlib_module_names))


def _end(judgement: Judgement) -> str:
    if judgement.timed_out:
        return "it ran out of time"
    lines = [line for line in judgement.output.strip().split("\n") if line.strip()]
    errors = [line for line in lines if line.startswith("E  ")][:2]
    telling = errors + [line for line in lines if line.startswith(("FAILED", "ERROR"))][:1]
    return " | ".join(" ".join(line.split()) for line in telling or lines[-2:])[:400]
