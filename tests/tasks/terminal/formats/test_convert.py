"""A task written in the other layout is the same task: it passes the gate there, and copies stay what they are."""

import asyncio

import pytest

from harness.errors import RequestError
from tasks.terminal.formats.convert import convert_task
from tasks.terminal.formats.foldertask import folder_fingerprint
from tasks.terminal.formats.gate import examine
from tasks.terminal.formats.read import read_task
from tests.tasks.terminal.formats.folders import SOLVE, commands, endless, harbor, play
from tests.tasks.terminal.formats.handwritten import TASKS


@pytest.mark.parametrize("make", [endless, harbor])
def test_the_same_layout_is_a_copy(tmp_path, make):
    folder = make(tmp_path / "t")
    task = read_task(folder)
    convert_task(task, tmp_path / "copy", task.layout)
    assert folder_fingerprint(tmp_path / "copy") == task.fingerprint


@pytest.mark.parametrize("task", TASKS[::7], ids=lambda task: task.name)
@pytest.mark.parametrize(("first", "second"), [("endless", "harbor"), ("harbor", "endless")])
def test_the_other_layout_passes_the_gate_too(machines, tmp_path, task, first, second):
    convert_task(read_task(getattr(task, first)(tmp_path / "t")), tmp_path / "other", second)
    converted = read_task(tmp_path / "other")
    finding = asyncio.run(examine(machines, converted))
    assert (converted.layout, finding.usable, finding.reason) == (second, True, "")
    assert finding.checks["initial"] == finding.checks["untouched"] == "passed"
    assert converted.instruction == task.instruction


def test_files_folders_and_variables_travel_with_a_dockerfile(machines, tmp_path):
    dockerfile = """\
        FROM debian
        ENV MODE="it's fast"
        WORKDIR /srv/app
        COPY run.sh /srv/app/
        RUN echo "$MODE" > mode && echo hello > /home/user/in.txt
        RUN ["touch", "exec form"]
        """
    initial = {
        "environment/run.sh": "echo run\n",
        "environment/test_initial_state.py": "def test_a(): pass\n",
    }
    convert_task(read_task(harbor(tmp_path / "h", dockerfile, files=initial)), tmp_path / "e", "endless")
    trajectory = play(
        machines, tmp_path / "e", commands("pwd; ls; cat mode; sh run.sh; echo $MODE $HOME", SOLVE)
    )
    shown = "exit code 0\n/srv/app\nexec form\nmode\nrun.sh\nit's fast\nrun\nit's fast /root"
    assert trajectory.turns[0].result.observation.text == shown
    assert trajectory.success


def test_the_environment_of_a_definition_reaches_the_agent_of_the_dockerfile(machines, tmp_path):
    folder = endless(tmp_path / "e", environment="    export GREETING='good day'")
    convert_task(read_task(folder), tmp_path / "h", "harbor")
    dockerfile = (tmp_path / "h" / "environment" / "Dockerfile").read_text()
    assert "export GREETING='good day'" in dockerfile
    assert play(machines, tmp_path / "h", commands(SOLVE)).success


@pytest.mark.parametrize(
    ("make", "layout", "part"),
    [
        (lambda p: harbor(p), "endless", "no test of the initial state"),
        (lambda p: harbor(p, test_sh="#!/bin/bash\ntrue\n"), "endless", "its verifier is more"),
        (lambda p: harbor(p, "FROM debian\nVOLUME /x\n"), "harbor", None),
        (lambda p: endless(p, post="    true\n%setup\n    x"), "harbor", "%setup"),
    ],
)
def test_what_the_other_layout_cannot_say_is_refused(tmp_path, make, layout, part):
    task = read_task(make(tmp_path / "t"))
    if part is None:
        convert_task(task, tmp_path / "out", layout)
        assert (tmp_path / "out" / "environment" / "Dockerfile").exists()
        return
    with pytest.raises(RequestError) as caught:
        convert_task(task, tmp_path / "out", layout)
    assert part in str(caught.value)
    assert not (tmp_path / "out").exists()
