"""Sandboxes against plain bash, in one run: start, command, end, and whole episodes eight at a time."""

import asyncio
import resource
import statistics
import subprocess
import time

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.filetree import folder, text_file
from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend
from tasks.terminal.sandbox.interface import SandboxLimits

ROUNDS, EPISODES, AT_ONCE = 60, 240, 8
FILES = {"/home/user/notes": folder(), "/home/user/notes/a.txt": text_file("one\ntwo\nthree\n")}
COMMANDS = (  # half of them start programs, as those of the generated tasks do
    "cd notes",
    "cat a.txt",
    "echo $((6 * 7)) > answer",
    "grep -c t a.txt",
    "name=$(head -n 1 a.txt)",
    "mkdir -p out && cp a.txt out/$name.txt",
    "test -f answer && echo yes",
    "ls -la",
)


def milliseconds(started):
    return (time.perf_counter() - started) * 1000


def plain_bash():
    """A bash per command with nothing around it, started as cheaply as Python can."""
    started = time.perf_counter()
    subprocess.run(["/bin/bash", "-c", "echo hi"], stdout=subprocess.PIPE, env={}, check=True)
    return milliseconds(started)


async def one_at_a_time(backend):
    """Medians in milliseconds of each stage; plain bash is measured in between, so that both see the same machine."""
    stages = {"plain bash": [], "start": [], "start + first command": [], "command": [], "end": []}
    for _ in range(ROUNDS):
        stages["plain bash"].append(plain_bash())
        started = time.perf_counter()
        sandbox = await backend.start(SandboxLimits())
        stages["start"].append(milliseconds(started))
        await sandbox.run("echo hi", 5)
        stages["start + first command"].append(milliseconds(started))
        for _ in range(3):
            started = time.perf_counter()
            await sandbox.run("echo hi", 5)
            stages["command"].append(milliseconds(started))
        started = time.perf_counter()
        await sandbox.close()
        stages["end"].append(milliseconds(started))
    return {name: statistics.median(times) for name, times in stages.items()}


async def episode(backend):
    sandbox = await backend.start(SandboxLimits())
    await sandbox.write(FILES)
    for command in COMMANDS:
        result = await sandbox.run(command, 5)
        assert result.exit_code == 0, (command, result)
    await sandbox.freeze()
    final = await sandbox.snapshot(["/home/user"])
    assert final["/home/user/notes/answer"].content == b"42\n"
    assert final["/home/user/notes/out/one.txt"].content == b"one\ntwo\nthree\n"
    await sandbox.close()


async def many_at_once(backend):
    """Episodes a second, and CPU milliseconds of the harness and of everything else per episode."""

    async def worker():
        for _ in range(EPISODES // AT_ONCE):
            await episode(backend)

    def cpu(who):
        usage = resource.getrusage(who)
        return usage.ru_utime + usage.ru_stime

    before = [cpu(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    seconds = time.perf_counter() - started
    after = [cpu(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return EPISODES / seconds, *((b - a) / EPISODES * 1000 for a, b in zip(before, after, strict=True))


@pytest.mark.benchmark
def test_sandbox_speed(capsys):
    try:
        backend = BubblewrapBackend()
    except InfrastructureError as error:
        pytest.skip(str(error))
    try:
        stages = asyncio.run(one_at_a_time(backend))
        rate, harness_ms, children_ms = asyncio.run(many_at_once(backend))
    finally:
        backend.close()
    bars = {"start + first command": 10, "command": 4}
    with capsys.disabled():
        print("\nbubblewrap sandbox, median milliseconds")
        for name, median in stages.items():
            bar = f"   (bar: under {bars[name]})" if name in bars else ""
            print(f"  {name:28s} {median:7.2f}   {median / stages['plain bash']:5.2f} x plain bash{bar}")
        print(
            f"  {AT_ONCE} at once: {rate:.1f} episodes/s of start, {len(COMMANDS)} commands, files read, end   (bar: over 50 on 2 cores)"
        )
        print(f"  CPU per episode: {harness_ms:.1f} ms in the harness, {children_ms:.1f} ms in sandboxes")
