"""Nothing stays: no process, mount, cgroup or descriptor, however a sandbox or its harness ended."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.sandbox import bubblewrap, cgroups, channel
from tasks.terminal.sandbox.interface import SandboxLimits


def descendants(pid: int | str = "self") -> set[int]:
    """Of a process, over all its threads."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found |= {int(child), *descendants(child)}
    return found


@pytest.fixture(autouse=True)
def already() -> set[int]:
    """Descendants from before the test and its sandboxes: other tests of this process may have left a fork server."""
    return descendants()


def own_cgroups() -> list[Path]:
    return [
        child
        for hierarchy in cgroups.hierarchies()
        for child in hierarchy.folder.iterdir()
        if child.name.startswith(f"{os.getpid()}-")
    ]


def eventually(condition: Callable[[], bool], timeout_s: float = 5) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_closed_sandboxes_leave_nothing(shells):
    shells.start().close()
    before = descendants(), set(os.listdir("/proc/self/fd")), Path("/proc/self/mounts").read_text()
    mounts_and_groups = len(own_cgroups())
    started = [shells.start() for _ in range(4)]
    started[0].run("sleep 60 & (setsid sleep 61 &); trap '' TERM")
    started[1].run("sleep 60", timeout_s=0.1)
    started[2].run("yes > /dev/null &")
    assert len(descendants()) >= len(before[0]) + 4
    if shells.backend.aggregate_limits:
        assert len(own_cgroups()) > mounts_and_groups
    for shell in started:
        shell.close()
    gc.collect()
    assert (descendants(), set(os.listdir("/proc/self/fd")), Path("/proc/self/mounts").read_text()) == before
    assert len(own_cgroups()) == mounts_and_groups


def test_closing_twice_and_using_a_closed_sandbox(shell):
    shell.close()
    shell.close()
    with pytest.raises(InfrastructureError, match="closed"):
        shell.run("echo")


def test_a_guest_killed_from_outside_is_an_infrastructure_failure_at_once(already, shell):
    # Killed is the machine, not the command: this must never look like the output of one.
    guest = shell.sandbox._machine.guest_pid()
    shell.run("sleep 30 &")
    os.kill(guest, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="gone"):
        shell.run("echo hi", timeout_s=60)
    assert time.monotonic() - started < 30
    shell.close()
    assert descendants() <= already


def test_a_guest_that_does_not_answer_is_given_up_and_killed(already, shell, monkeypatch):
    monkeypatch.setattr(channel, "GRACE_S", 0.2)
    monkeypatch.setattr(bubblewrap, "END_PATIENCE_S", 0.1)
    os.kill(shell.sandbox._machine.guest_pid(), signal.SIGSTOP)
    with pytest.raises(InfrastructureError, match="did not answer within"):
        shell.run("echo hi", timeout_s=0.1)
    with pytest.raises(InfrastructureError, match="did not answer within"):
        shell.run("echo hi", timeout_s=0.1)
    shell.close()
    assert descendants() <= already


def test_a_request_that_was_cancelled_makes_the_sandbox_unusable_not_wrong(shell):
    async def cancelled() -> None:
        running = asyncio.ensure_future(shell.sandbox.run("sleep 0.2; echo old", 5))
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    shell.runner.run(cancelled())
    with pytest.raises(InfrastructureError, match="abandoned"):
        shell.run("echo new")


def test_a_cancelled_start_leaves_nothing(already, shells):
    async def cancelled() -> None:
        for pause in (0, 0.001, 0.003, 0.006):
            starting = asyncio.ensure_future(shells.backend.start(SandboxLimits()))
            await asyncio.sleep(pause)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting

    before = len(own_cgroups())
    shells.runner.run(cancelled())
    assert eventually(lambda: descendants() <= already)
    assert len(own_cgroups()) == before


HARNESS = """
import asyncio, sys
from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend
from tasks.terminal.sandbox.interface import SandboxLimits

async def main():
    backend = BubblewrapBackend()
    sandboxes = [await backend.start(SandboxLimits()) for _ in range(3)]
    for sandbox in sandboxes:
        await sandbox.run("sleep 300 & (setsid sleep 301 &)", 5)
    print("ready", flush=True)
    await sandboxes[0].run("sleep 302", 600)

asyncio.run(main())
"""


def test_when_the_harness_is_killed_its_sandboxes_die_and_their_cgroups_are_swept(backend):
    root = Path(__file__).parents[4]
    harness = subprocess.Popen([sys.executable, "-c", HARNESS], cwd=root, stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    with harness.stdout:
        assert harness.stdout.readline() == "ready\n"
    inside = descendants(harness.pid)
    assert len(inside) >= 3 * 4
    harness.kill()
    harness.wait()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))
    found = cgroups.hierarchies()  # a new harness starts
    left = [
        child.name for h in found for child in h.folder.iterdir() if child.name.startswith(f"{harness.pid}-")
    ]
    assert left == []
