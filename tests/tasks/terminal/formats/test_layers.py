"""The cache of layers: built once, by content, never half-written."""

import asyncio
import multiprocessing
import time

import pytest

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import text_file
from tasks.terminal.formats import machine
from tasks.terminal.formats.layers import Layer, LayerCache
from tasks.terminal.formats.machine import Machines
from tasks.terminal.formats.read import read_task
from tasks.terminal.sandbox.interface import SandboxLimits
from tests.tasks.terminal.formats.folders import POST, endless, harbor

LAYER = Layer(b"archive", ("/home", "/x"), (("/etc/a", text_file("a", 0o600)),), (("/l", "/t"),))


def test_a_layer_comes_back_as_it_was_put(tmp_path):
    cache = LayerCache(tmp_path / "layers")
    assert cache.get("k") is None
    cache.put("k", LAYER)
    assert cache.get("k") == LAYER
    cache.put("k", LAYER)
    assert [p.name for p in (tmp_path / "layers").iterdir()] == ["k"]


def test_a_damaged_layer_is_named_and_not_used(tmp_path):
    cache = LayerCache(tmp_path)
    cache.put("k", LAYER)
    (tmp_path / "k" / "layer.tar").write_bytes(b"archivf")
    with pytest.raises(InfrastructureError, match=r"layer\.tar: is damaged; remove"):
        cache.get("k")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InfrastructureError, match="a layer cannot be kept"):
        LayerCache(tmp_path / "file").put("k", LAYER)


@pytest.fixture
def counted(backend, tmp_path, monkeypatch):
    """Machines over an empty cache, and the builds that they made."""
    builds = []
    real = machine.build

    async def build(backend, plan, *rest):
        builds.append(plan)
        return await real(backend, plan, *rest)

    monkeypatch.setattr(machine, "build", build)
    return Machines(backend, LayerCache(tmp_path / "layers")), builds


def test_a_layer_is_built_once_however_many_ask(counted, tmp_path):
    machines, builds = counted
    task = read_task(endless(tmp_path / "t"))

    async def ask():
        return await asyncio.gather(*(machines.layer(task) for _ in range(5)))

    answers = asyncio.run(ask())
    assert len(builds) == 1
    assert len({layer.archive for _, layer in answers}) == 1


def test_layers_go_by_content(counted, tmp_path):
    machines, builds = counted

    def ask(folder):
        asyncio.run(machines.layer(read_task(folder)))
        return len(builds)

    assert ask(endless(tmp_path / "a")) == 1
    assert (
        ask(endless(tmp_path / "same", description="another instruction", final="def test_b(): pass\n")) == 1
    )
    assert ask(endless(tmp_path / "b", post=POST + "\n    true")) == 2
    dockerfile = "FROM debian\nCOPY f /home/user/f\n"
    assert ask(harbor(tmp_path / "c", dockerfile, files={"environment/f": "1"})) == 3
    assert ask(harbor(tmp_path / "d", dockerfile, files={"environment/f": "1"})) == 3
    assert ask(harbor(tmp_path / "e", dockerfile, files={"environment/f": "2"})) == 4


def test_a_failed_build_leaves_no_layer(backend, tmp_path):
    machines = Machines(backend, LayerCache(tmp_path / "layers"))
    task = read_task(endless(tmp_path / "t", post="    echo half > /home/user/half\n    false"))
    with pytest.raises(
        EnvironmentFault, match=r"task t: container\.def, line 6: exit code 1.*bench tasks validate"
    ):
        asyncio.run(machines.start(task, SandboxLimits()))
    assert [p.name for p in (tmp_path / "layers").iterdir() if not p.name.startswith(".")] == []


def _hold(folder, started, seconds):
    with LayerCache(folder).locked("k"):
        started.set()
        time.sleep(seconds)
        (folder / "done").touch()


def test_another_process_waits_for_the_one_that_builds(tmp_path):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, started, 1.0))
    holder.start()
    assert started.wait(30)
    with LayerCache(tmp_path).locked("k"):
        assert (tmp_path / "done").exists()
    holder.join(30)


def test_the_memory_and_storage_of_the_task_hold(machines, tmp_path):
    toml = "[environment]\nmemory_mb = 300\nstorage_mb = 20\n"
    task = read_task(harbor(tmp_path / "t", toml=toml))

    async def fill():
        sandbox, _ = await machines.start(task, SandboxLimits())
        try:
            return await sandbox.run(
                "head -c 30000000 /dev/zero > /home/user/big; stat -c %s /home/user/big", 20
            )
        finally:
            await sandbox.close()

    result = asyncio.run(fill())
    assert int(result.output.split()[-1]) <= 20 << 20
    assert "No space left" in result.output
