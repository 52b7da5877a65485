"""Twenty tasks in both layouts, from the folder to the verdict: built, untouched, attempted wrongly, solved."""

import asyncio

import pytest

from tasks.terminal.formats.gate import examine
from tasks.terminal.formats.read import read_task
from tests.tasks.terminal.formats.folders import commands, play
from tests.tasks.terminal.formats.handwritten import TASKS


def test_there_are_twenty_over_many_categories():
    assert len({task.name for task in TASKS}) == 20
    assert len({task.category for task in TASKS}) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("layout", ["endless", "harbor"])
def test_a_task_passes_the_gate(machines, tmp_path, task, layout):
    finding = asyncio.run(examine(machines, read_task(getattr(task, layout)(tmp_path / task.name))))
    assert (finding.usable, finding.reason) == (True, "")
    assert finding.checks == dict.fromkeys(("build", "initial", "untouched", "solution"), "passed")


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("layout", ["endless", "harbor"])
def test_an_agent_is_judged_alike_in_both_layouts(machines, tmp_path, task, layout):
    folder = getattr(task, layout)(tmp_path / task.name)
    assert play(machines, folder, commands(*task.solve)).success is True
    assert play(machines, folder, commands(*task.wrong)).success is False
