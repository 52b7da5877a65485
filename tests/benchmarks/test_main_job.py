"""The main job in small: episodes a second and a CPU-second, and where the workers' time went."""

import os
import resource
import time

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
    known = cost["policy_s"] + cost["environment_s"] + cost["noise_s"]
    busy = cost["worker_s"] + cost["update_s"]
    with capsys.disabled():
        print(f"\nmain job, {cost['updates']} updates, {cost['episodes']} episodes, {os.cpu_count()} cores")
        print(f"  {cost['episodes'] / wall:6.1f} episodes/s after start-up")
        print(f"  {cost['episodes'] / cpu:6.1f} episodes per CPU-second, start-up of the workers included")
        for name in ("policy_s", "environment_s", "noise_s"):
            label = {"policy_s": "policy", "environment_s": "sandbox", "noise_s": "noise"}[name]
            print(f"  {100 * cost[name] / busy:5.1f} % {label}")
        print(f"  {100 * cost['update_s'] / busy:5.1f} % update")
        print(f"  {100 * (cost['worker_s'] - known) / busy:5.1f} % the rest of the workers' time")
    assert cost["episodes"] == 6 * 32 * 8
    assert time.time() >= log[-1]["t"]
