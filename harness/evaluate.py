"""``bench eval``: the evaluation of ``bench run``, on any policy or finished run, without a run directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import evaluation, registry
from harness.config import Experiment
from harness.errors import RequestError
from harness.interfaces import Suite
from harness.policies.factory import model_source
from harness.workers.local import Completed, LocalWorkers


def _unexpected(done: Completed) -> None:
    raise AssertionError(f"a job that nobody submitted came back: {done.job}")


def evaluate_model(experiment: Experiment, advance: Callable[[int, int], None]) -> list[dict[str, Any]]:
    """Rows of all passes over all splits of the evaluation table. ``advance(done, total)`` counts episodes."""
    suite: Suite = registry.suite_class(experiment.suite_name)(experiment.suite)
    model_source(experiment.policy, suite)
    table = experiment.evaluation
    for split in table.splits:
        if split not in suite.splits():
            raise RequestError(
                f"--split {split}: not a split of {experiment.suite_name}; accepted: {', '.join(suite.splits())}"
            )
    plan = [
        (which, job)
        for split in table.splits
        for which in evaluation.passes(table, split)
        for job in evaluation.jobs(table, 0, which, evaluation.spread(len(suite.tasks(split)), table.limit))
    ]
    total = sum(len(job.task_indices) for _, job in plan)
    done = 0

    def count(episodes: int) -> None:
        nonlocal done
        done += episodes
        advance(done, total)

    with LocalWorkers(experiment) as workers:
        workers.wait_until_ready()
        played = evaluation.play(workers, plan, elsewhere=_unexpected, advance=count)
    return [
        evaluation.row(trajectory, which) for which, trajectories in played for trajectory in trajectories
    ]
