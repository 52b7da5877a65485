"""Held-out evaluation: which episodes, played by whom, recorded how. Scoring what comes out is ``harness.scoring``.

A pass is one decoding of one checkpoint over a split: ``greedy``, or ``sampled`` with an evaluation seed. Tasks go to the
workers in fixed groups of ``evaluation.concurrency``, so rows depend on neither the number of workers nor their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config import EvaluationTable
from harness.errors import InfrastructureError
from harness.interfaces import Trajectory
from harness.rundir import trajectory_record
from harness.workers.evaluator import EpisodesJob
from harness.workers.local import Completed, LocalWorkers

GREEDY = "greedy"
SAMPLED = "sampled"


@dataclass(frozen=True, slots=True)
class Pass:
    """``evaluation_seed`` is None for the greedy pass."""

    split: str
    evaluation_seed: int | None

    @property
    def decoding(self) -> str:
        return GREEDY if self.evaluation_seed is None else SAMPLED


def passes(table: EvaluationTable, split: str) -> list[Pass]:
    return [Pass(split, None), *(Pass(split, seed) for seed in range(table.seeds))]


def spread(available: int, wanted: int | None) -> tuple[int, ...]:
    """``wanted`` indices spread evenly over ``0 .. available - 1`` (all of them for None or too many)."""
    if wanted is None or wanted >= available:
        return tuple(range(available))
    return tuple(i * available // wanted for i in range(wanted))


def jobs(table: EvaluationTable, version: int, which: Pass, indices: Sequence[int]) -> list[EpisodesJob]:
    """The jobs of one pass, in task order."""
    return [
        EpisodesJob(
            version=version,
            split=which.split,
            task_indices=tuple(indices[start : start + table.concurrency]),
            temperature=0.0 if which.evaluation_seed is None else table.temperature,
            stream_name=(
                "evaluation",
                which.evaluation_seed if which.evaluation_seed is not None else "greedy",
            ),
        )
        for start in range(0, len(indices), table.concurrency)
    ]


def row(trajectory: Trajectory, which: Pass) -> dict[str, Any]:
    """One row of ``eval/*.jsonl``. ``success`` and ``return`` are null for an infrastructure failure: missing, not zero."""
    turns = trajectory.turns
    return {
        "task": trajectory.task_id,
        "family": trajectory.family,
        "difficulty": trajectory.difficulty,
        "split": which.split,
        "decoding": which.decoding,
        "evaluation_seed": which.evaluation_seed,
        "success": trajectory.success,
        "return": trajectory.episode_return,
        "turns": len(turns),
        "tokens": trajectory.generated_tokens,
        "invalid": sum(turn.action.kind == "invalid" or turn.result.invalid for turn in turns),
        "timed_out": sum(bool(turn.result.info.get("timed_out")) for turn in turns),
        "truncated": trajectory.truncated,
        "attempts": trajectory.attempts,
        "error": trajectory.error,
    }


def play(
    workers: LocalWorkers,
    plan: Sequence[tuple[Pass, EpisodesJob]],
    *,
    elsewhere: Callable[[Completed], None],
    advance: Callable[[int], None] = lambda episodes: None,
) -> list[tuple[Pass, list[Trajectory]]]:
    """Run the jobs of a plan on a pool that may have other work in flight; what is not ours goes to ``elsewhere``."""
    results: dict[EpisodesJob, list[Trajectory]] = {}
    todo = list(plan)
    ours = {job for _, job in plan}
    while len(results) < len(ours):
        while todo and workers.idle:
            workers.submit(todo.pop(0)[1])
        for done in workers.wait():
            if done.job not in ours:
                elsewhere(done)
            elif done.error is not None:
                raise InfrastructureError(f"evaluation of {done.job.split} failed: {done.error}")
            else:
                results[done.job] = done.result
                advance(len(done.result))
    return [(which, results[job]) for which, job in plan]


def records(played: Sequence[tuple[Pass, list[Trajectory]]], version: int) -> list[dict[str, Any]]:
    """Trajectories for the record, labelled with their pass."""
    return [
        trajectory_record(
            trajectory,
            version=version,
            split=which.split,
            decoding=which.decoding,
            evaluation_seed=which.evaluation_seed,
        )
        for which, trajectories in played
        for trajectory in trajectories
    ]
