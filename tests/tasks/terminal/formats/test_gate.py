"""The quality gate: which tasks are usable, and what the report says of the others."""

import asyncio
import json

import pytest

from harness.errors import RequestError
from tasks.terminal.formats import manifest, source
from tasks.terminal.formats.gate import examine_all, imported_modules
from tasks.terminal.formats.read import read_task
from tests.tasks.terminal.formats.folders import FINAL, POST, SOLVE, endless, harbor

PASSES = "def test_a():\n    pass\n"


def recorded(*texts):
    messages = [{"role": "assistant", "content": f"<command>{text}</command>"} for text in texts]
    return {"solutions/m_summary.json": json.dumps({"results": [{"success": True, "messages": messages}]})}


def examined(machines, *folders, concurrency=2):
    return asyncio.run(examine_all(machines, [read_task(folder) for folder in folders], concurrency))


@pytest.mark.parametrize(
    ("make", "checks"),
    [
        (lambda p: endless(p), ["passed", "passed", "passed", "absent"]),
        (lambda p: endless(p, files=recorded("cd /home/user", "tr a-z A-Z < in.txt > out.txt")), ["passed"] * 4),
        (lambda p: harbor(p), ["passed", "absent", "passed", "passed"]),
        (lambda p: harbor(p, solve="cp /solution/right.txt /home/user/out.txt", files={"solution/right.txt": "HELLO\n"}), ["passed", "absent", "passed", "passed"]),
    ],
)  # fmt: skip
def test_a_good_task_is_usable(machines, tmp_path, make, checks):
    (finding,) = examined(machines, make(tmp_path / "t"))
    assert (finding.usable, finding.reason) == (True, "")
    assert [finding.checks[name] for name in ("build", "initial", "untouched", "solution")] == checks


@pytest.mark.parametrize(
    ("make", "check", "file", "line", "parts"),
    [
        (lambda p: endless(p, post="    true\n    false"), "build", "container.def", 6, ["exit code 1"]),
        (lambda p: endless(p, post="    apt-get install -y cowsay"), "build", "container.def", 5, ["network", "cowsay"]),
        (lambda p: harbor(p, "FROM debian\nVOLUME /x\n"), "build", "environment/Dockerfile", 2, ["VOLUME"]),
        (lambda p: harbor(p, "FROM debian\nRUN exit 4\n"), "build", "environment/Dockerfile", 2, ["exit code 4"]),
        (lambda p: endless(p, post="    true"), "initial", "test_initial_state.py", None, ["initial test fails", "in.txt"]),
        (lambda p: endless(p, final=PASSES), "untouched", None, None, ["passes although nothing was done"]),
        (lambda p: harbor(p, solve="true"), "solution", None, None, ["fails after the solution", "out.txt"]),
        (lambda p: endless(p, files=recorded("false")), "solution", None, None, ["fails after the solution"]),
        (lambda p: endless(p, final="import nobodys_module\n" + FINAL), "untouched", None, None, ["import nobodys_module"]),
        (lambda p: harbor(p, test_sh="#!/bin/bash\ntrue\n"), None, None, None, ["could not be examined", "no reward file"]),
        (lambda p: harbor(p, test_sh="#!/bin/bash\necho 7 > /logs/verifier/reward.txt\n"), None, None, None, ["reward.txt = 7"]),
        (lambda p: endless(p, final="x = 1\n"), None, None, None, ["no test"]),
    ],
)  # fmt: skip
def test_a_task_that_is_not_usable_says_why(machines, tmp_path, make, check, file, line, parts):
    (finding,) = examined(machines, make(tmp_path / "t"))
    assert not finding.usable
    assert (finding.file, finding.line) == (file, line)
    if check:
        assert finding.checks[check] == "failed"
    for part in parts:
        assert part in finding.reason


def test_findings_come_in_the_order_of_the_tasks(machines, tmp_path):
    folders = [endless(tmp_path / f"t{n}", final=FINAL if n % 2 else PASSES) for n in range(4)]
    findings = examined(machines, *folders, concurrency=4)
    assert [(f.task_id, f.usable) for f in findings] == [
        ("t0", False),
        ("t1", True),
        ("t2", False),
        ("t3", True),
    ]


def test_imports_of_tests_that_may_be_missing_are_not_asked_for():
    text = b"import os, yaml.nodes\nfrom json import loads\nimport helper\nfrom pkg.a import b\ntry:\n    import gone\nexcept ImportError:\n    pass\ndef f():\n    import later\n"
    from tasks.terminal.filetree import Entry

    tests = {
        "/tests/test_a.py": Entry("file", 0o644, content=text),
        "/tests/helper.py": Entry("file", 0o644, content=b"import requests\n"),
        "/tests/pkg/a.py": Entry("file", 0o644, content=b"not ( python"),
    }
    assert imported_modules(tests) == ["requests", "yaml"]


def good_and_bad(folder):
    for number in range(6):
        endless(folder / f"good{number}")
    endless(folder / "bad", post=POST + "\n%setup\n    x")
    return folder


def test_a_run_refuses_tasks_that_cannot_be_built_and_says_what_to_do(tmp_path):
    with pytest.raises(RequestError) as caught:
        source.usable_tasks(str(good_and_bad(tmp_path)))
    for part in ("task bad: container.def, line 9", "%setup", "bench tasks validate"):
        assert part in str(caught.value)


def test_a_run_uses_the_manifests_tasks(tmp_path):
    good_and_bad(tmp_path)
    good = [read_task(tmp_path / f"good{n}") for n in range(6)]
    manifest.write_manifest(tmp_path, str(tmp_path), good)
    splits = source.usable_tasks(str(tmp_path))
    assert sorted(task.task_id for tasks in splits.values() for task in tasks) == [
        f"good{n}" for n in range(6)
    ]
    assert splits["heldout"]


def test_a_manifest_elsewhere_names_its_source(tmp_path):
    good_and_bad(tmp_path / "tasks")
    good = [read_task(tmp_path / "tasks" / f"good{n}") for n in range(3)]
    path = manifest.write_manifest(tmp_path / "out", str(tmp_path / "tasks"), good)
    assert json.loads(path.read_text())["source"] == "../tasks"
    splits = source.usable_tasks(str(path))
    assert sum(len(tasks) for tasks in splits.values()) == 3


def test_a_task_that_changed_after_it_was_examined_is_refused(tmp_path):
    good_and_bad(tmp_path)
    manifest.write_manifest(
        tmp_path, str(tmp_path), [read_task(tmp_path / "good1"), read_task(tmp_path / "good2")]
    )
    (tmp_path / "good2" / "container.def").write_text(
        (tmp_path / "good2" / "container.def").read_text() + "\n"
    )
    with pytest.raises(RequestError, match="good2 has changed"):
        source.usable_tasks(str(tmp_path))
    (tmp_path / "good1").rename(tmp_path / "other")
    with pytest.raises(RequestError, match="good1 is gone"):
        source.usable_tasks(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "part"),
    [("{", "not valid JSON"), ('{"format": "x"}', "format = 'x'"), ('{"format": "usable terminal tasks, version 1", "source": ".", "tasks": []}', "lists no usable task")],
)  # fmt: skip
def test_a_malformed_manifest_is_named(tmp_path, content, part):
    endless(tmp_path / "t")
    (tmp_path / manifest.MANIFEST).write_text(content)
    with pytest.raises(RequestError) as caught:
        source.usable_tasks(str(tmp_path))
    assert part in str(caught.value)
    assert manifest.MANIFEST in str(caught.value)


def test_a_solution_is_not_there_when_the_task_is_played(machines, tmp_path):
    from tests.tasks.terminal.formats.folders import commands, play

    trajectory = play(machines, harbor(tmp_path / "t"), commands("ls /solution /tests /logs"))
    assert "cannot access '/solution'" in trajectory.turns[0].result.observation.text
    assert "solve.sh" not in trajectory.turns[0].result.observation.text
    assert SOLVE not in trajectory.turns[0].result.observation.text
