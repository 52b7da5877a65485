"""Task folders from the command line: validate, list, show, and a whole run."""

import json
import sys

import pytest

from harness import cli
from harness.errors import RequestError
from tasks.terminal.suite import TerminalSettings, TerminalSuite
from tests.runs import play
from tests.tasks.terminal.formats.folders import POST, endless, harbor


@pytest.fixture
def bench(tmp_path, monkeypatch, capfd):
    """Run the command line in this process: ``(exit code, output, errors)``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cli.err, "_width", 1000)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def folder(tmp_path):
    for number in range(2):
        endless(tmp_path / "tasks" / f"e{number}", post=f"{POST}\n    echo {number} > /home/user/number")
        harbor(tmp_path / "tasks" / f"h{number}")
    return tmp_path / "tasks"


def test_validate_writes_a_report_and_a_manifest(bench, folder, tmp_path):
    endless(folder / "bad", post="    true\n    pip install nobodys-package")
    code, output, errors = bench("tasks", "validate", folder, "--concurrency", 2)
    assert code == 1
    lines = output.splitlines()
    assert "unusable  bad: container.def, line 6: needs the network: pip install nobodys-package" in lines
    assert sum(line.startswith("usable    ") for line in lines) == 4
    assert errors.startswith("bench: 1 of 5 tasks are not usable")
    report = json.loads((folder / "tasks-report.json").read_text())["tasks"]
    assert [entry["task_id"] for entry in report if not entry["usable"]] == ["bad"]
    assert {(e["checks"]["build"], e["checks"]["untouched"]) for e in report if e["usable"]} == {
        ("passed", "passed")
    }
    usable = json.loads((folder / "usable-tasks.json").read_text())["tasks"]
    assert sorted(entry["task_id"] for entry in usable) == ["e0", "e1", "h0", "h1"]


def test_validate_succeeds_where_every_task_is_usable(bench, tmp_path):
    endless(tmp_path / "tasks" / "a")
    code, output, errors = bench("tasks", "validate", tmp_path / "tasks", "--out", tmp_path / "out")
    assert (code, errors) == (0, "")
    assert "1 of 1 tasks are usable" in output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "tasks-report.json",
        "usable-tasks.json",
    ]


def test_list_and_show(bench, folder):
    listed = [
        bench("tasks", "list", "--tasks", folder, "--split", split)[1] for split in ("train", "heldout")
    ]
    names = sorted(line.split()[0] for text in listed for line in text.splitlines())
    assert names == ["e0", "e1", "h0", "h1"]
    shown = bench("tasks", "show", "e1", "--tasks", folder)[1]
    for part in (
        "instruction: Write in.txt",
        "truth: out.txt is HELLO",
        "echo 1 > /home/user/number",
        "def test_the_output",
    ):
        assert part in shown
    assert "solution: bash /solution/solve.sh" in bench("tasks", "show", "h1", "--tasks", folder)[1]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tasks", "validate", "TASKS"], ["TASKS/x/task.json: description = 3"]),
        (["tasks", "list", "--tasks", "TASKS"], ["TASKS/x/task.json: description = 3"]),
        (["tasks", "validate", "nowhere"], ["--tasks nowhere", "accepted"]),
        (["tasks", "list", "--tasks", "GOOD", "--split", "dev"], ["--split dev", "train, heldout"]),
        (["tasks", "show", "nobody", "--tasks", "GOOD"], ["'nobody'"]),
        (["tasks", "validate", "GOOD", "--sandbox", "nothing"], ["--sandbox nothing"]),
    ],
)
def test_a_bad_request_is_a_sentence_and_2_and_writes_nothing(bench, tmp_path, arguments, parts):
    good, bad = tmp_path / "good", tmp_path / "bad"
    endless(good / "t")
    endless(bad / "t")
    endless(bad / "x", files={"task.json": '{"description": 3}'})
    before = sorted(tmp_path.rglob("*"))
    replaced = [a.replace("TASKS", str(bad)).replace("GOOD", str(good)) for a in arguments]
    code, output, errors = bench(*replaced)
    assert (code, output) == (2, "")
    assert errors.startswith("bench: ")
    assert len(errors.splitlines()) == 1
    for part in parts:
        assert part.replace("TASKS", str(bad)) in errors
    assert sorted(tmp_path.rglob("*")) == before


def test_the_suite_of_a_folder(folder):
    suite = TerminalSuite(TerminalSettings(tasks=str(folder)))
    assert suite.splits() == ("train", "heldout")
    assert [len(suite.tasks(split)) for split in suite.splits()] == [3, 1]
    manifest = suite.manifest()
    assert manifest["sizes"] == {"train": 3, "heldout": 1}
    path = folder / "h1" / "tests" / "test_final_state.py"
    path.write_text(path.read_text() + "\n")
    assert TerminalSuite(TerminalSettings(tasks=str(folder))).manifest()["sha256"] != manifest["sha256"]
    with pytest.raises(RequestError, match="accepted: train, heldout"):
        suite.tasks("compose")
    with pytest.raises(RequestError, match="no demonstration of e"):
        suite.demonstration(next(t for s in suite.splits() for t in suite.tasks(s)), "expert", 0)


def test_one_task_alone_can_be_evaluated_but_not_trained_on(tmp_path):
    suite = TerminalSuite(TerminalSettings(tasks=str(endless(tmp_path / "t"))))
    assert [task.task_id for task in suite.tasks("heldout")] == ["t"]
    with pytest.raises(RequestError, match="at least two tasks"):
        suite.tasks("train")


@pytest.fixture
def policy(tmp_path):
    """Random weights of the smallest model, with the suite's words."""
    from harness.policies import tiny

    words, markers = TerminalSuite(TerminalSettings()).vocabulary()
    tokenizer = tiny.build_tokenizer(["write the input in capitals to the output"], words, markers, 600)
    shape = tiny.TinyShape(hidden=32, layers=1, heads=1)
    tiny.save(tiny.build_model(len(tokenizer), shape, 1), tokenizer, tmp_path / "policy")
    return tmp_path / "policy"


def test_a_whole_run_trains_and_evaluates_on_task_folders(folder, policy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    raw = {
        "suite": {"name": "terminal", "tasks": str(folder), "max_turns": 2},
        "method": {"name": "async-es", "updates": 1, "population": 2, "tasks_per_member": 2},
        "policy": {"model": str(policy)},
        "evaluation": {"seeds": 0},
        "workers": {"count": 1},
    }
    run = play(raw, tmp_path / "run")
    suite = TerminalSuite(TerminalSettings(tasks=str(folder)))
    assert run.read_manifest()["suite"]["sha256"] == suite.manifest()["sha256"]
    rows = [json.loads(line) for path in run.evaluations.iterdir() for line in path.read_text().splitlines()]
    held_out = sorted(task.task_id for task in suite.tasks("heldout"))
    assert sorted(row["task"] for row in rows) == sorted(held_out * 2)
    assert all(row["error"] is None for row in rows)
