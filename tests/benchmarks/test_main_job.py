"""The main job in small: episodes a second and a CPU-second, and where the workers' time went."""

import os
import resource

import pytest

from harness.config import experiment
from harness.run import start, totals


def cpu_seconds():
    """Of this process and of those that it has waited for (workers and, through them, sandboxes)."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


@pytest.mark.benchmark
def test_main_job(tmp_path, capsys):
    raw = {
        "method": {"name": "async-es", "delay": 4, "updates": 6},
        "evaluation": {"splits": [], "before": False},
    }
    before = cpu_seconds()
    run = start(experiment(raw, "the benchmark"), tmp_path / "run", ["bench", "run"])
    cpu = cpu_seconds() - before
    log = run.read_events()
    cost = totals(log)
    wall = log[-1]["t"] - log[0]["t"]
    busy = cost["worker_s"] + cost["update_s"]
    # Lockstep batches: while a worker neither computes the policy nor noise, it waits for its sandboxes (or parses).
    sandbox_s = cost["worker_s"] - cost["policy_s"] - cost["noise_s"]
    with capsys.disabled():
        print(f"\nmain job, {cost['updates']} updates, {cost['episodes']} episodes, {os.cpu_count()} cores")
        print(f"  {cost['episodes'] / wall:6.1f} episodes/s after start-up")
        print(f"  {cost['episodes'] / cpu:6.1f} episodes per CPU-second, start-up of the workers included")
        shares = {
            "policy": cost["policy_s"],
            "sandbox": sandbox_s,
            "noise": cost["noise_s"],
            "update": cost["update_s"],
        }
        for name, seconds in shares.items():
            print(f"  {100 * seconds / busy:5.1f} % {name}")
    assert cost["episodes"] == 6 * 32 * 8
