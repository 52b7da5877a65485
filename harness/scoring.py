"""Held-out success with its uncertainty. Pure; rows are validated at the border, apart from the mathematics.

An arm's success is the mean over tasks of each task's mean over evaluation seeds. Its 95 % interval is clustered by task: a
Student t interval on the per-task means. Where that says nothing (one seed: the means are 0 or 1; or an arm at 0 or 100 %),
it is Wilson's interval with tasks as trials. Treating the episodes of several seeds as independent trials would be wrong:
they share tasks. Infrastructure failures are missing data: left out of the mean, counted, and bounded by the two worst cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from harness.errors import RequestError

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Outcome:
    """One evaluated episode: ``value`` is its success (0 or 1) or return; None where the infrastructure failed."""

    task: str
    seed: int | None
    value: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """``method`` says how it was computed: ``t`` (clustered by task) or ``wilson`` (tasks as trials)."""

    low: float
    high: float
    method: Literal["t", "wilson"]


@dataclass(frozen=True, slots=True)
class Score:
    """mean and interval: None when nothing was measured. ``worst_low`` and ``worst_high``: the mean if every missing episode had
    been a failure, or a success. ``per_seed``: mean over tasks for each evaluation seed."""

    mean: float | None
    interval: Interval | None
    tasks: int
    seeds: int
    episodes: int
    missing: int
    worst_low: float | None
    worst_high: float | None
    per_seed: Mapping[int | None, float]


def wilson(successes: float, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval for a proportion (E. B. Wilson, 1927)."""
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"wilson needs 0 <= successes <= trials and trials >= 1, not {successes} of {trials}"
        )
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    p = successes / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    # The bounds hold the proportion itself; at 0 and 1 only rounding would say otherwise.
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


def clustered_t(task_means: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """t interval for the mean of independent per-task means (at least two). Not clipped to [0, 1]."""
    n = len(task_means)
    if n < 2:
        raise ValueError("a t interval needs at least two tasks")
    mean = math.fsum(task_means) / n
    variance = math.fsum((x - mean) ** 2 for x in task_means) / (n - 1)
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * math.sqrt(variance / n)
    return mean - half, mean + half


def score(outcomes: Iterable[Outcome], *, binary: bool = True) -> Score:
    """Score one arm. ``binary``: values are successes, so that intervals stay in [0, 1] and Wilson applies."""
    everything = list(outcomes)
    by_task: dict[str, list[float | None]] = {}
    by_seed: dict[int | None, list[float]] = {}
    for outcome in everything:
        by_task.setdefault(outcome.task, []).append(outcome.value)
        if outcome.value is not None:
            by_seed.setdefault(outcome.seed, []).append(outcome.value)
    seeds = len({outcome.seed for outcome in everything})
    known = {task: [v for v in values if v is not None] for task, values in by_task.items()}
    means = [math.fsum(values) / len(values) for values in known.values() if values]
    missing = sum(outcome.value is None for outcome in everything)
    per_seed = {seed: math.fsum(values) / len(values) for seed, values in by_seed.items()}
    if not means:
        return Score(None, None, len(by_task), seeds, len(everything), missing, None, None, per_seed)

    def filled(value: float) -> float:
        return math.fsum(
            math.fsum(value if v is None else v for v in values) / len(values) for values in by_task.values()
        ) / len(by_task)

    mean = math.fsum(means) / len(means)
    return Score(
        mean,
        _interval(means, seeds, binary),
        len(by_task),
        seeds,
        len(everything),
        missing,
        filled(0.0) if binary else None,
        filled(1.0) if binary else None,
        per_seed,
    )


def _interval(means: Sequence[float], seeds: int, binary: bool) -> Interval | None:
    mean = math.fsum(means) / len(means)
    if binary and (seeds == 1 or mean in (0.0, 1.0)):
        return Interval(*wilson(min(mean * len(means), len(means)), len(means)), "wilson")
    if len(means) < 2:
        return None
    low, high = clustered_t(means)
    return Interval(max(0.0, low), min(1.0, high), "t") if binary else Interval(low, high, "t")


def outcomes(
    rows: Iterable[Mapping[str, Any]],
    *,
    decoding: str,
    source: str,
    value: Literal["success", "return"] = "success",
) -> list[Outcome]:
    """Validate rows of an ``eval/*.jsonl`` and pick one decoding. Raises RequestError naming ``source`` and the row."""
    picked: list[Outcome] = []
    seen: set[tuple[str, int | None]] = set()
    for number, row in enumerate(rows, start=1):
        try:
            task, seed, kind, got = row["task"], row["evaluation_seed"], row["decoding"], row[value]
        except KeyError as error:
            raise RequestError(
                f"{source}: row {number} has no {error}; accepted: rows that `bench run` wrote"
            ) from None
        if kind != decoding:
            continue
        if (task, seed) in seen:
            raise RequestError(
                f"{source}: row {number} repeats task {task!r} with evaluation_seed = {seed}; accepted: once each"
            )
        if got is not None and (isinstance(got, str) or not math.isfinite(got)):
            raise RequestError(
                f"{source}: row {number}: {value} = {got!r}; accepted: a finite number, true, false or null"
            )
        seen.add((task, seed))
        picked.append(Outcome(task, seed, None if got is None else float(got)))
    return picked
