"""The terminal environment: an episode is a sandbox of its own, from the task's files to the verdict on what is left."""

from __future__ import annotations

import asyncio

from harness.errors import EnvironmentFault, InfrastructureError
from harness.interfaces import Action, Environment, Observation, StepResult, Task
from tasks.terminal.agent import REMINDER, observe
from tasks.terminal.formats.episode import FolderEnvironment
from tasks.terminal.formats.machine import Machines
from tasks.terminal.sandbox.interface import Sandbox, SnapshotTooLarge
from tasks.terminal.sandbox.pool import SandboxPool
from tasks.terminal.task import TerminalTask, verdict

HOME = "/home/user"


class TerminalEnvironment:
    """One episode at a time. Reward 1 if every check of the task holds on the final file system, else 0; it is decided after
    the agent's processes are gone, on a copy of the files that the sandbox's guest read without following links."""

    def __init__(self, pool: SandboxPool, command_timeout_s: float) -> None:
        self._pool = pool
        self._timeout_s = command_timeout_s
        self._sandbox: Sandbox | None = None
        self._task: TerminalTask | None = None

    async def reset(self, task: Task, seed: int) -> Observation:
        await self.close()
        if not isinstance(task, TerminalTask):
            raise EnvironmentFault(f"{task.task_id}: not a terminal task but {type(task).__name__}")
        self._task = task
        self._sandbox = await self._pool.acquire()
        await self._sandbox.write(task.files)
        return Observation(task.instruction)

    async def step(self, action: Action) -> StepResult:
        if action.kind == "done":
            return await self.truncate()
        if action.kind != "command":
            return StepResult(Observation(REMINDER), 0.0, False, invalid=True)
        sandbox, _ = self._live()
        result = await sandbox.run(action.argument, self._timeout_s)
        return StepResult(
            observe(result, self._timeout_s),
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
        await sandbox.freeze()
        try:
            success = verdict(task, await sandbox.snapshot([HOME]))
        except SnapshotTooLarge:
            success = False
        await self.close()
        return StepResult(Observation(""), 1.0 if success else 0.0, True, info={"success": success})

    async def close(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()

    def _live(self) -> tuple[Sandbox, TerminalTask]:
        if self._sandbox is None or self._task is None:
            raise InfrastructureError("the sandbox of this episode is gone")
        return self._sandbox, self._task


class TerminalEnvironments:
    """The sandboxes of one process, for so many episodes at once, and the environments over them: for generated tasks a pool of
    sandboxes started ahead, for tasks from folders the machines that start from each task's own layer."""

    def __init__(
        self,
        sandbox: str,
        command_timeout_s: float,
        folders: bool = False,
        episode_timeout_s: float = 600.0,
        verifier_timeout_s: float = 300.0,
    ) -> None:
        self._sandbox = sandbox
        self._timeout_s = command_timeout_s
        self._folders = folders
        self._episode_timeout_s = episode_timeout_s
        self._verifier_timeout_s = verifier_timeout_s
        self._pool: SandboxPool | None = None
        self._machines: Machines | None = None

    async def open(self, concurrency: int) -> None:
        from tasks.terminal.sandbox.select import select_backend

        await self.close()
        backend = select_backend(self._sandbox)
        if self._folders:
            self._machines = Machines(backend)
            return
        self._pool = SandboxPool(backend, ahead=min(concurrency, 8))
        await self._pool.open()

    def environment(self) -> Environment:
        if self._machines is not None:
            return FolderEnvironment(
                self._machines, self._timeout_s, self._episode_timeout_s, self._verifier_timeout_s
            )
        if self._pool is None:
            raise InfrastructureError("the terminal suite is not open in this process")
        return TerminalEnvironment(self._pool, self._timeout_s)

    async def close(self) -> None:
        self._machines = None
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.shield(pool.close())
