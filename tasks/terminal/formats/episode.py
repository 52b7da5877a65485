"""The environment of folder tasks: the task's machine, the agent's commands, the verifier after the agent is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.errors import EnvironmentFault, InfrastructureError
from harness.interfaces import Action, Observation, StepResult, Task
from tasks.terminal.agent import REMINDER, observe
from tasks.terminal.formats.foldertask import FolderTask
from tasks.terminal.formats.judging import judge
from tasks.terminal.formats.machine import Machines
from tasks.terminal.formats.plan import Plan
from tasks.terminal.sandbox.interface import Sandbox, SandboxLimits


class FolderEnvironment:
    """One episode at a time. The reward is the verifier's; a verifier that cannot run is no reward but an InfrastructureError.

    ``clock``: seconds, monotonic. When the episode's time is over, it is judged as it stands."""

    def __init__(
        self,
        machines: Machines,
        command_timeout_s: float,
        episode_timeout_s: float,
        verifier_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machines = machines
        self._command_s = command_timeout_s
        self._episode_s = episode_timeout_s
        self._verifier_s = verifier_timeout_s
        self._clock = clock
        self._sandbox: Sandbox | None = None
        self._task: FolderTask | None = None
        self._plan: Plan | None = None
        self._deadline = 0.0

    async def reset(self, task: Task, seed: int) -> Observation:
        await self.close()
        if not isinstance(task, FolderTask):
            raise EnvironmentFault(f"{task.task_id}: not a task from a folder but {type(task).__name__}")
        self._task = task
        self._sandbox, self._plan = await self._machines.start(task, SandboxLimits())
        self._deadline = self._clock() + min(self._episode_s, task.limits.agent_s or self._episode_s)
        return Observation(task.instruction)

    async def step(self, action: Action) -> StepResult:
        if action.kind == "done":
            return await self.truncate()
        left = self._deadline - self._clock()
        if left <= 0:
            return await self.truncate()
        if action.kind != "command":
            return StepResult(Observation(REMINDER), 0.0, False, invalid=True)
        sandbox, _ = self._live()
        timeout_s = min(self._command_s, left)
        result = await sandbox.run(action.argument, timeout_s)
        return StepResult(
            observe(result, timeout_s),
            0.0,
            False,
            info={
                "exit_code": result.exit_code,
                "timed_out": result.timed_out,
                "command_s": result.duration_s,
            },
        )

    async def truncate(self) -> StepResult:
        sandbox, task = self._live()
        assert self._plan is not None
        await sandbox.freeze()
        timeout_s = task.limits.verifier_s or self._verifier_s
        judgement = await judge(
            sandbox, task.tests, task.verifier, self._plan.environment, self._plan.workdir, timeout_s
        )
        await self.close()
        info = {"success": judgement.solved, "verifier_timed_out": judgement.timed_out}
        return StepResult(Observation(""), judgement.reward, True, info=info)

    async def close(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()

    def _live(self) -> tuple[Sandbox, FolderTask]:
        if self._sandbox is None or self._task is None:
            raise InfrastructureError("the sandbox of this episode is gone")
        return self._sandbox, self._task
