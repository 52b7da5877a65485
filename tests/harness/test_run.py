"""Whole small runs: reproducible, independent of workers, resumable from any point, auditable, replayable."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import registry
from harness.audit import audit
from harness.config import experiment
from harness.errors import RequestError
from harness.events import read_events
from harness.replay import replay
from harness.run import resume
from harness.rundir import RunDirectory
from tests.runs import play, results_of, small, weights_of

DELAYED = small("async-es", delay=1, delay_fraction=0.5)


def updates_that_move(run):
    return [e for e in run.read_events() if e["kind"] == "updated" and not e["empty"]]


@pytest.fixture(scope="module")
def synchronous(tmp_path_factory):
    run = play(small(), tmp_path_factory.mktemp("run") / "sync")
    assert updates_that_move(run), "equal hashes would prove nothing"
    return run


@pytest.fixture(scope="module")
def delayed(tmp_path_factory):
    run = play(DELAYED, tmp_path_factory.mktemp("run") / "delayed")
    assert updates_that_move(run), "equal hashes would prove nothing"
    return run


def audited(directory):
    resolved = directory.experiment()
    method = registry.method_class(resolved.method_name)(resolved.method)
    return audit(directory.read_events(), method.cohorts(resolved.seed))


def test_a_run_on_another_number_of_workers_has_the_same_results(delayed, tmp_path):
    again = play({**DELAYED, "workers": {"count": 1}}, tmp_path / "again")
    assert results_of(again) == results_of(delayed)


def test_another_seed_has_other_results(delayed, tmp_path):
    other = play({**DELAYED, "seed": 6}, tmp_path / "other")
    assert weights_of(other) != weights_of(delayed)


def test_a_delay_of_nothing_is_synchronous_bit_for_bit(synchronous, tmp_path):
    for name, settings in {
        "no delay": {"delay": 0, "delay_fraction": 1.0},
        "no one held back": {"delay": 4, "delay_fraction": 0.0},
        "natural, bound 0": {"max_staleness": 0},
    }.items():
        run = play(small("async-es", **settings), tmp_path / name)
        assert weights_of(run) == weights_of(synchronous), name


def test_the_log_holds_the_schedule_that_was_asked_for(delayed):
    found = audited(delayed)
    assert found.problems == ()
    # Half of 4 members (a pair) is one update late, from the second update on: 2 + 4 + 4 consumed, 2 left at the end.
    assert (found.dispatched, found.consumed, found.dropped_end) == (12, 10, 2)
    assert found.staleness == {0: 6, 1: 4}


def test_replay_rebuilds_every_recorded_version(delayed):
    found, master = replay(delayed)
    assert (found.version, found.checked, found.mismatch) == (3, 4, None)
    assert found.weights_sha256 == weights_of(delayed) == master.sha256()


def test_replay_finds_a_changed_coefficient(delayed, tmp_path):
    copy = shutil.copytree(delayed.path, tmp_path / "copy")
    events = read_events(copy / "events.jsonl")
    changed = next(e for e in events if e["kind"] == "updated" and not e["empty"])
    changed["cohort"][0]["coefficient"] *= -1
    (copy / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    assert replay(RunDirectory.existing(copy))[0].mismatch == changed["version"]


def test_final_weights_start_another_run_and_are_what_was_trained(delayed, tmp_path):
    raw = small(over={"policy": {"model": str(delayed.path)}, "seed": 8})
    run = play(raw, tmp_path / "next")
    assert run.read_events()[0]["base_sha256"] == weights_of(delayed)


def test_natural_asynchrony_keeps_its_bound_and_replays(tmp_path):
    run = play(small("async-es", max_staleness=1, updates=4), tmp_path / "natural")
    found = audited(run)
    assert found.problems == ()
    assert max(found.staleness) <= 1
    assert replay(run)[0].mismatch is None


@pytest.mark.parametrize("fixture", ["synchronous", "delayed"])
def test_a_run_cut_after_any_event_resumes_to_the_same_results(fixture, request, tmp_path):
    whole = request.getfixturevalue(fixture)
    lines = (whole.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    wanted = results_of(whole)
    # Before anything, in the middle of a cohort, just before and after an update, and one event before the end.
    updated = [i for i, line in enumerate(lines) if b'"updated"' in line]
    for number, cut in enumerate((1, updated[0] - 2, updated[1], updated[1] + 1, len(lines) - 1)):
        copy = shutil.copytree(whole.path, tmp_path / f"cut{number}")
        (copy / "events.jsonl").write_bytes(b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
        (copy / "final.safetensors").unlink()
        resume(copy)
        assert results_of(RunDirectory.existing(copy)) == wanted, cut


def test_a_finished_run_is_left_alone(delayed):
    before = (delayed.path / "events.jsonl").read_bytes()
    resume(delayed.path)
    assert (delayed.path / "events.jsonl").read_bytes() == before


def _start(raw, path, tmp_path):
    file = tmp_path / "experiment.toml"
    file.write_text(experiment(raw, "the test").to_toml())
    return subprocess.Popen(
        [Path(sys.executable).with_name("bench"), "run", "--config", file, "--out", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test session in the background of a shell ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def _wait_for_events(process, path, count):
    while process.poll() is None:
        if path.is_file() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)


def _kill_and_resume(raw, whole, path, tmp_path, when):
    process = _start(raw, path, tmp_path)
    total = len(whole.read_events())
    _wait_for_events(process, path / "events.jsonl", max(1, int(when * total)))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    resume(path)
    assert results_of(RunDirectory.existing(path)) == results_of(whole)


@pytest.mark.parametrize("when", [0.1, 0.6])
def test_a_killed_run_resumes_to_the_same_results(when, delayed, tmp_path):
    _kill_and_resume(DELAYED, delayed, tmp_path / "run", tmp_path, when)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_twenty_random_kills(number, synchronous, delayed, tmp_path):
    when = random.Random(number).random()
    raw, whole = (small(), synchronous) if number % 2 else (DELAYED, delayed)
    _kill_and_resume(raw, whole, tmp_path / "run", tmp_path, when)


def test_an_interrupted_run_exits_130_says_how_to_go_on_and_does(delayed, tmp_path):
    process = _start(DELAYED, tmp_path / "run", tmp_path)
    _wait_for_events(process, tmp_path / "run" / "events.jsonl", 8)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"bench run --resume {tmp_path / 'run'}" in errors.replace("\n", "")
    resume(tmp_path / "run")
    assert results_of(RunDirectory.existing(tmp_path / "run")) == results_of(delayed)


def test_a_worker_that_dies_costs_nothing_but_time(delayed, tmp_path):
    process = _start(DELAYED, tmp_path / "run", tmp_path)
    _wait_for_events(process, tmp_path / "run" / "events.jsonl", 5)
    children = subprocess.run(
        ["ps", "-o", "pid=,args=", "-g", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    # The fork server's children are the workers: they run its command line and have it as parent.
    workers = [int(line.split()[0]) for line in children if "forkserver" in line]
    os.kill(workers[-1], signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert results_of(RunDirectory.existing(tmp_path / "run")) == results_of(delayed)


def test_two_processes_never_run_one_run(delayed):
    again = RunDirectory.existing(delayed.path)
    delayed.lock()
    try:
        with pytest.raises(RequestError, match="another process"):
            again.lock()
    finally:
        delayed.unlock()


def test_a_resumed_run_refuses_other_weights_and_other_tasks(delayed, tmp_path):
    copy = shutil.copytree(delayed.path, tmp_path / "copy")
    lines = (copy / "events.jsonl").read_text().splitlines(keepends=True)
    first = json.loads(lines[0])
    (copy / "events.jsonl").write_text(json.dumps({**first, "base_sha256": "0" * 64}) + "\n")
    with pytest.raises(RequestError, match="began from weights 000000000000"):
        resume(copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["suite"]["sha256"] = "other"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RequestError, match="tasks of suite 'terminal' have changed"):
        resume(copy)
