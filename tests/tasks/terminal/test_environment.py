import asyncio

from harness.interfaces import Action
from tasks.terminal.environment import TerminalEnvironments
from tasks.terminal.generator.manifest import TaskList


def played(task, commands):
    async def play():
        environments = TerminalEnvironments("auto", 30.0)
        await environments.open(1)
        try:
            environment = environments.environment()
            await environment.reset(task, 0)
            for command in commands:
                await environment.step(Action("command", command))
            return await environment.step(Action("done"))
        finally:
            await environments.close()

    return asyncio.run(play())


def test_more_files_than_can_be_read_are_no_solution_and_no_crash():
    task = TaskList("train")[0]
    flood = "mkdir flood && cd flood && seq 10001 | xargs touch"
    assert played(task, task.experts[0]).reward == 1.0
    result = played(task, [*task.experts[0], flood])
    assert (result.reward, result.done, result.info["success"]) == (0.0, True, False)
