"""Small real runs for tests: real sandboxes, the embedded policy, few members. Also ways to run `bench` and look at runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.config import experiment, merge
from harness.run import start
from harness.rundir import RunDirectory

SMALL = {
    "seed": 8,
    "method": {"updates": 3, "population": 4, "tasks_per_member": 4, "alpha": 0.02},
    # Two tasks whose commands write to one stream at a time: both sides of a pipe that fail print in either order.
    "evaluation": {"limit": 2, "subset": 2, "every": 1, "seeds": 1},
    "workers": {"count": 2},
}


def small(method="sync-es", over=None, **settings):
    """The raw table of a small experiment."""
    table = merge(SMALL, {"method": {"name": method, **settings}})
    return merge(table, over or {})


def play(raw, path: Path) -> RunDirectory:
    """Run it in this process."""
    return start(experiment(raw, "the test"), path, ["bench", "run"])


def bench(*arguments, cwd=None, timeout=120, **environment):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [Path(sys.executable).with_name("bench"), *map(str, arguments)],
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def weights_of(directory: RunDirectory) -> str:
    last = directory.read_events()[-1]
    assert last["kind"] == "run_finished"
    return last["weights_sha256"]


def results_of(directory: RunDirectory) -> dict:
    """Everything that must be equal between two runs of one experiment: every version's hash, and every evaluation row."""
    return {
        "weights": [e["weights_sha256"] for e in directory.read_events() if e["kind"] == "updated"],
        "cohorts": [e["cohort"] for e in directory.read_events() if e["kind"] == "updated"],
        "final": weights_of(directory),
        "rows": {
            path.name: [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(directory.evaluations.iterdir())
        },
    }
