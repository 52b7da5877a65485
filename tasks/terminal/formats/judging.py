"""How a finished episode is judged: in a new process after the freeze, with the tests there only now.

pytest runs from the harness's own copy, isolated from everything that the agent could have left (environment, site
packages, configuration, plugins); the verdict is its exit status. A task's own ``test.sh`` runs where it does more than to wrap
pytest; its verdict is the reward file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import FileTree
from tasks.terminal.formats.foldertask import Verifier
from tasks.terminal.formats.tools import MOUNT, RUN_PYTEST, sandbox_python
from tasks.terminal.sandbox.interface import Sandbox, VerifyResult

_UNUSED_PLUGINS = (
    "doctest",
    "junitxml",
    "pastebin",
    "stepwise",
    "setuponly",
    "setupplan",
)  # a fifth of its start
_NO_PYTEST = 100
_PYTEST_INTERNAL, _PYTEST_USAGE, _PYTEST_NONE = 3, 4, 5
_LIBRARY_PATHS = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "BASH_ENV", "ENV")


@dataclass(frozen=True, slots=True)
class Judgement:
    """``reward`` from 0 to 1; solved is a reward of 1. ``output``: what the verifier said, for reports only."""

    reward: float
    output: str
    timed_out: bool = False

    @property
    def solved(self) -> bool:
        return self.reward >= 1.0


async def judge(
    sandbox: Sandbox,
    tests: FileTree,
    verifier: Verifier,
    environment: Mapping[str, str],
    workdir: str,
    timeout_s: float,
) -> Judgement:
    """On a frozen sandbox. Raises InfrastructureError where the verifier could not run, EnvironmentFault for a broken one."""
    kept = {k: v for k, v in {**environment, **dict(verifier.environment)}.items() if k not in _LIBRARY_PATHS}
    kept["PATH"] = "/usr/bin:/bin:" + kept.get("PATH", "/usr/local/bin")
    assignments = [f"{name}={value}" for name, value in kept.items()]
    if verifier.kind == "pytest":
        without = [part for name in _UNUSED_PLUGINS for part in ("-p", f"no:{name}")]
        command = [sandbox_python(), "-I", "-S", RUN_PYTEST, workdir, *without, *verifier.targets]
        result = await sandbox.verify(tests, ["/usr/bin/env", *assignments, *command], timeout_s)
        return _by_status(result)
    # test.sh is its author's, like the tests; it starts in the task's folder.
    assignments += [f"PYTHONPATH={MOUNT}", "PYTHONNOUSERSITE=1"]
    assignments.append(f"PATH={MOUNT}/bin:{kept['PATH']}")
    command = ["/bin/bash", "-c", 'cd "$0" 2>/dev/null; exec /bin/bash /tests/test.sh', workdir]
    result = await sandbox.verify(tests, ["/usr/bin/env", *assignments, *command], timeout_s)
    if result.timed_out:
        return Judgement(0.0, result.output, timed_out=True)
    return await _by_reward_file(sandbox, result)


def _by_status(result: VerifyResult) -> Judgement:
    """A verifier that ends by a signal or runs out of time ran the agent's work, which did that: not solved."""
    if result.timed_out or result.exit_status is None:
        return Judgement(0.0, result.output, timed_out=True)
    if result.exit_status in (_NO_PYTEST, _PYTEST_INTERNAL, _PYTEST_USAGE):
        raise InfrastructureError(f"the verifier could not run: {result.output.strip()[-300:]}")
    if result.exit_status == _PYTEST_NONE:
        raise EnvironmentFault(f"the verifier has no test: {result.output.strip()[-300:]}")
    return Judgement(1.0 if result.exit_status == 0 else 0.0, result.output)


async def _by_reward_file(sandbox: Sandbox, result: VerifyResult) -> Judgement:
    tree = await sandbox.snapshot(["/logs/verifier/reward.json", "/logs/verifier/reward.txt"])
    for name, read in (("reward.json", _from_json), ("reward.txt", float)):
        entry = tree.get(f"/logs/verifier/{name}")
        if entry is None:
            continue
        text = (entry.content or b"").decode(errors="replace").strip()
        try:
            reward = read(text)
        except (ValueError, TypeError):
            raise EnvironmentFault(
                f"the verifier's {name} = {text[:80]!r}; accepted: a number from 0 to 1"
            ) from None
        if not 0 <= reward <= 1:
            raise EnvironmentFault(f"the verifier's {name} = {reward}; accepted: a number from 0 to 1")
        return Judgement(reward, result.output)
    raise InfrastructureError(
        f"the verifier left no reward file (exit status {result.exit_status}): {result.output.strip()[-300:]}"
    )


def _from_json(text: str) -> float:
    """A number, or an object whose ``reward``, or only value, is one."""
    value = json.loads(text)
    if isinstance(value, dict):
        value = (
            value["reward"] if "reward" in value else next(iter(value.values())) if len(value) == 1 else None
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no number")
    return float(value)


async def missing_modules(sandbox: Sandbox, names: Sequence[str]) -> list[str]:
    """Which of these modules pytest would not find in a frozen sandbox."""
    if not names:
        return []
    result = await sandbox.verify({}, [sandbox_python(), "-I", "-S", RUN_PYTEST, "--missing", *names], 60)
    if result.exit_status != 0:
        raise InfrastructureError(f"python does not run in the sandbox: {result.output.strip()[-300:]}")
    return result.output.split()
