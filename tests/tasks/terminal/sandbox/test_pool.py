import asyncio

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.sandbox.interface import SandboxLimits
from tasks.terminal.sandbox.pool import SandboxPool


class FakeSandbox:
    def __init__(self, number):
        self.number, self.closed = number, False

    async def close(self):
        self.closed = True


class FakeBackend:
    """Starts take one turn of the event loop; the first ``failures`` of them fail."""

    name = "fake"

    def __init__(self, failures=0):
        self.failures, self.tries, self.started = failures, 0, []

    async def start(self, limits):
        self.tries += 1
        await asyncio.sleep(0)
        if self.tries <= self.failures:
            raise InfrastructureError("no luck")
        self.started.append(FakeSandbox(len(self.started)))
        return self.started[-1]


def test_sandboxes_are_started_before_they_are_asked_for_and_handed_out_once():
    async def scenario():
        backend = FakeBackend()
        pool = SandboxPool(backend, ahead=3)
        await pool.open()
        await asyncio.sleep(0.01)
        assert len(backend.started) == 3
        taken = [await pool.acquire() for _ in range(5)]
        assert [sandbox.number for sandbox in taken] == [0, 1, 2, 3, 4]
        await pool.close()
        return backend, taken

    backend, taken = asyncio.run(scenario())
    assert [sandbox.closed for sandbox in taken] == [False] * 5
    assert all(sandbox.closed for sandbox in backend.started if sandbox not in taken)


def test_no_more_than_asked_are_ahead():
    async def scenario():
        backend = FakeBackend()
        pool = SandboxPool(backend, ahead=2)
        await pool.open()
        await asyncio.sleep(0.01)
        await pool.acquire()
        await asyncio.sleep(0.01)
        started = len(backend.started)
        await pool.close()
        return started

    assert asyncio.run(scenario()) == 3


def test_a_start_that_fails_is_tried_again():
    async def scenario():
        pool = SandboxPool(FakeBackend(failures=3), ahead=0, attempts=4, first_pause_s=0)
        await pool.open()
        return await pool.acquire()

    assert asyncio.run(scenario()).number == 0


def test_after_a_few_failures_the_caller_is_told_and_later_calls_try_again():
    async def scenario():
        backend = FakeBackend(failures=4)
        pool = SandboxPool(backend, ahead=0, attempts=4, first_pause_s=0)
        await pool.open()
        with pytest.raises(InfrastructureError, match="no luck"):
            await pool.acquire()
        return backend.tries, await pool.acquire()

    tries, sandbox = asyncio.run(scenario())
    assert (tries, sandbox.number) == (4, 0)


def test_a_closed_pool_hands_out_nothing():
    async def scenario():
        pool = SandboxPool(FakeBackend(), ahead=1)
        with pytest.raises(InfrastructureError, match="closed"):
            await pool.acquire()
        await pool.open()
        await pool.close()
        with pytest.raises(InfrastructureError, match="closed"):
            await pool.acquire()

    asyncio.run(scenario())


def test_a_caller_that_gives_up_leaves_no_sandbox_behind():
    async def scenario():
        backend = FakeBackend()
        pool = SandboxPool(backend, ahead=0)
        await pool.open()
        waiting = asyncio.ensure_future(pool.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await pool.close()
        return backend

    assert all(sandbox.closed for sandbox in asyncio.run(scenario()).started)


def test_a_pool_over_the_real_backend_gives_fresh_sandboxes(backend):
    async def scenario():
        pool = SandboxPool(backend, ahead=2, limits=SandboxLimits(disk_mb=8))
        await pool.open()
        outputs = []
        for _ in range(4):
            sandbox = await pool.acquire()
            outputs.append(
                (await sandbox.run("ls -A; touch mine; df -m --output=size /tmp | tail -1", 5)).output.strip()
            )
            await sandbox.close()
        await pool.close()
        return outputs

    assert asyncio.run(scenario()) == ["8"] * 4
