"""The command line: exit codes, sentences, nothing left behind; and what each command prints of a small real run."""

import json
import os
import re
import sys

import pytest

from harness import cli
from tests.runs import bench, play, small


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    """Run the command line in this process, in an empty folder: ``(exit code, output, errors)``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.out, "_width", 400)
    monkeypatch.setattr(cli.err, "_width", 400)

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


@pytest.fixture(scope="module")
def delayed(tmp_path_factory):
    raw = small("async-es", delay=1, delay_fraction=0.5, over={"record": {"trajectories": "all"}})
    return play(raw, tmp_path_factory.mktemp("runs") / "small")


BAD_REQUESTS = {
    "a word for a number": (["run", "--delay", "x"], ["--delay", "'x'"]),
    "an unknown method": (["run", "--method", "nope"], ["method.name", "nope", "async-es"]),
    "an unknown suite": (["run", "--suite", "nope"], ["suite.name", "nope", "terminal"]),
    "an unknown engine": (["run", "--engine", "nope"], ["policy.engine = 'nope'", "torch"]),
    "an unknown sandbox": (["run", "--sandbox", "none"], ["suite.sandbox = 'none'", "bubblewrap"]),
    "contradicting schedules": (["run", "--delay", "4", "--max-staleness", "1"], ["contradict", "accepted: one"]),
    "a delay for sync-es": (["run", "--method", "sync-es", "--delay", "4"], ["method.delay", "not a setting"]),
    "no such experiment": (["run", "--config", "none.toml"], ["none.toml", "no such file"]),
    "broken TOML": (["run", "--config", "broken.toml"], ["broken.toml", "not valid TOML", "line 1"]),
    "a missing model folder": (["run", "--model", "./none"], ["policy.model = './none'", "no such folder"]),
    "a folder that is no model": (["run", "--model", "full"], ["policy.model = 'full'", "config.json"]),
    "an output that is in use": (["run", "--out", "full"], ["--out full", "exists and is not an empty"]),
    "an output under a file": (["run", "--out", "full/file/run"], ["--out full/file/run", "cannot be written"]),
    "an output on a read-only disk": (["run", "--out", "/proc/none/run"], ["/proc/none/run", "cannot be written"]),
    "resume with other options": (["run", "--resume", "full", "--seed", "1"], ["--resume", "no other option"]),
    "resume of what is no run": (["run", "--resume", "full"], ["full", "not a run directory"]),
    "a report of no runs": (["report"], ["results/runs", "no run yet"]),
    "a report of what is no run": (["report", "full"], ["full", "not a run directory"]),
    "an audit of what is no run": (["audit", "none"], ["none", "not a run directory"]),
    "a replay of what is no run": (["replay", "none"], ["none", "not a run directory"]),
    "an unknown split": (["eval", "--model", "embedded", "--split", "nope"], ["--split nope", "heldout"]),
    "an unknown list": (["list", "nope"], ["bench list nope", "suites"]),
    "an unknown command": (["nope"], ["nope"]),
    "an unknown task": (["tasks", "show", "train-99999"], ["train-99999", "not known"]),
    "an unknown export format": (["tasks", "export", "--out", "x", "--format", "zip"], ["--format zip", "harbor"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_is_a_sentence_and_2_and_leaves_nothing(case, call, tmp_path):
    arguments, parts = BAD_REQUESTS[case]
    (tmp_path / "broken.toml").write_text("seed = = 1\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    before = sorted(path for path in tmp_path.rglob("*"))
    code, output, errors = call(*arguments)
    assert code == 2, errors
    assert errors.startswith("bench: ")
    assert len(errors.splitlines()) == 1
    assert output == ""
    for part in parts:
        assert part in errors
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_a_process_of_its_own_exits_with_the_same_codes(tmp_path):
    done = bench("run", "--delay", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_plan_and_writes_nothing(call, tmp_path):
    code, output, _ = call("run", "--method", "async-es", "--delay", "4", "--updates", "3", "--dry-run")
    assert code == 0
    assert "delay = 4" in output
    assert "members = 96" in output  # 3 updates of 32
    assert "episodes = 768" in output  # 8 tasks a member
    assert (
        "evaluation_episodes = 2048" in output
    )  # 256 tasks, one greedy and three sampled passes, before and after
    assert list(tmp_path.iterdir()) == []


def test_a_run_from_the_command_line_says_what_it_did_and_cost(call, tmp_path):
    (tmp_path / "small.toml").write_text(
        "[evaluation]\nlimit = 3\nseeds = 1\nevery = 0\n[method]\npopulation = 2\ntasks_per_member = 1\n"
    )
    code, output, _ = call(
        "run", "--config", "small.toml", "--method", "sync-es", "--updates", "2", "--out", "r"
    )
    assert code == 0
    assert "update   2/2" in output
    assert "conservation: 4 dispatched = 4 consumed" in output
    assert re.search(r"cost: 4 training episodes, \d+ tokens", output)
    assert re.search(r"weights sha256 [0-9a-f]{64}", output)
    code, output, _ = call("report", "r")
    assert code == 0
    rows = [
        line
        for line in (tmp_path / "results/runs/report/results.md").read_text().splitlines()
        if "| r " in line
    ]
    assert len(rows) == 2
    assert "booktabs" not in output
    assert "\\toprule" in (tmp_path / "results/runs/report/results.tex").read_text()


def test_report_gives_the_same_bytes_twice(call, delayed, tmp_path):
    for out in ("a", "b"):
        assert call("report", delayed.path, "--out", out)[0] == 0
    for name in ("results.tex", "results.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_reported_numbers_are_those_of_the_rows(call, delayed):
    _, output, _ = call("report", delayed.path)
    rows = [
        json.loads(line) for line in (delayed.evaluations / "v000003-heldout.jsonl").read_text().splitlines()
    ]
    greedy = [row["success"] for row in rows if row["decoding"] == "greedy"]
    assert len(greedy) == 2
    line = next(line for line in output.splitlines() if "greedy" in line)
    assert f"{100 * sum(greedy) / len(greedy):.1f} [" in line


def test_audit_and_replay_of_a_sound_run_and_of_a_forged_one(call, delayed, tmp_path):
    assert call("audit", delayed.path)[0] == 0
    code, output, _ = call("replay", delayed.path, "--save", "rebuilt.safetensors")
    assert code == 0
    assert "all 4 recorded hashes agree" in output
    assert (tmp_path / "rebuilt.safetensors").read_bytes() == delayed.final.read_bytes()
    import shutil

    forged = shutil.copytree(delayed.path, tmp_path / "forged")
    text = (forged / "events.jsonl").read_text()
    (forged / "events.jsonl").write_text(text.replace('"sign":-1', '"sign":1'))
    code, _, errors = call("replay", forged)
    assert code == 1
    assert "differ from what the run recorded" in errors


def test_show_prints_the_turns_of_a_task(call, delayed):
    task = json.loads((delayed.evaluations / "v000003-heldout.jsonl").read_text().splitlines()[0])["task"]
    code, output, _ = call("show", delayed.path, task)
    assert code == 0
    assert "greedy" in output
    assert "<command>" in output or "<action>done</action>" in output
    assert call("show", delayed.path, "heldout-99999")[0] == 2


def test_eval_of_a_run_is_its_own_final_evaluation(call, delayed, tmp_path):
    code, _, _ = call(
        "eval", "--model", delayed.path, "--limit", 2, "--eval-seeds", 1, "--seed", 8, "--out", "rows.jsonl"
    )
    assert code == 0
    rows = (tmp_path / "rows.jsonl").read_text()
    assert rows == (delayed.evaluations / "v000003-heldout.jsonl").read_text()


def test_list_names_suites_and_methods_with_their_settings(call):
    code, output, _ = call("list")
    assert code == 0
    for part in (
        "suite terminal",
        "method sync-es",
        "method async-es",
        "sigma = 0.01",
        "max_staleness = None",
    ):
        assert part in output


def test_doctor_says_what_works(call):
    code, output, _ = call("doctor")
    assert code == 0
    assert re.search(r"bubblewrap.*(yes|no)", output)


def test_a_full_disk_is_3_and_the_run_resumes(delayed, tmp_path):
    """A file-size limit refuses writes as a full disk does: at some event the log cannot grow."""
    import resource
    import shutil
    import subprocess
    from pathlib import Path

    from harness.config import experiment
    from harness.run import resume
    from harness.rundir import RunDirectory
    from tests.runs import results_of

    raw = {**small("async-es", delay=1, delay_fraction=0.5), "policy": {"model": "embedded"}}
    (tmp_path / "e.toml").write_text(experiment(raw, "the test").to_toml())
    size = (delayed.path / "events.jsonl").stat().st_size
    done = subprocess.run(
        [
            Path(sys.executable).with_name("bench"),
            "run",
            "--config",
            tmp_path / "e.toml",
            "--out",
            tmp_path / "run",
        ],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY)),
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stderr
    assert "bench run --resume" in done.stderr
    assert shutil.disk_usage(tmp_path).free > 0
    resume(tmp_path / "run")
    assert results_of(RunDirectory.existing(tmp_path / "run")) == results_of(delayed)
