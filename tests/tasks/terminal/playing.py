"""Plays commands of tasks in real sandboxes, many at once, and gives the final trees."""

import asyncio

from tasks.terminal.sandbox.pool import SandboxPool
from tasks.terminal.sandbox.select import select_backend
from tasks.terminal.task import HOME


def final_trees(episodes):
    """``episodes``: (task, commands) pairs. The final tree of each, in their order."""

    async def play():
        pool = SandboxPool(select_backend("auto"), ahead=8)
        await pool.open()
        gate = asyncio.Semaphore(8)

        async def one(task, commands):
            async with gate:
                sandbox = await pool.acquire()
                try:
                    await sandbox.write(task.files)
                    for command in commands:
                        await sandbox.run(command, 20)
                    await sandbox.freeze()
                    return await sandbox.snapshot([HOME])
                finally:
                    await sandbox.close()

        try:
            return await asyncio.gather(*[one(task, commands) for task, commands in episodes])
        finally:
            await pool.close()

    return asyncio.run(play())
