"""One run as one row: what it was, what it scored, what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness import registry, scoring
from harness.audit import Audit, audit
from harness.errors import RequestError
from harness.events import Event
from harness.run import Method, totals
from harness.rundir import RunDirectory
from harness.scoring import Score


@dataclass(frozen=True)
class Arm:
    """``before`` and ``after``: split -> decoding -> score. ``curve``: (version, episodes so far, greedy success on the subset)."""

    name: str
    label: str
    suite: str
    method: str
    seed: int
    finished: bool
    before: dict[str, dict[str, Score]]
    after: dict[str, dict[str, Score]]
    curve: tuple[tuple[int, int, float], ...]
    audit: Audit
    totals: dict[str, Any]
    wall_s: float


def label(method: str, settings: dict[str, Any]) -> str:
    """How a table names an arm."""
    if settings.get("delay") is not None:
        share = settings.get("delay_fraction")
        return f"{method}, delay {settings['delay']} at {100 * (0.1 if share is None else share):g} %"
    if method == "async-es":
        bound = settings.get("max_staleness")
        return f"{method}, Async-{1 if bound is None else bound}"
    return method


def read_arm(directory: RunDirectory) -> Arm:
    """Raises RequestError where the run holds nothing to report yet."""
    experiment = directory.experiment()
    log = directory.read_events()
    if not log:
        raise RequestError(f"{directory.events}: empty; accepted: a run that has begun")
    method: Method = registry.method_class(experiment.method_name)(experiment.method)
    full = [e for e in log if e["kind"] == "evaluated" and not e["file"].endswith("-subset.jsonl")]
    last = max((e["version"] for e in full), default=0)
    return Arm(
        name=directory.path.name,
        label=label(experiment.method_name, experiment.method.model_dump()),
        suite=experiment.suite_name,
        method=experiment.method_name,
        seed=experiment.seed,
        finished=log[-1]["kind"] == "run_finished",
        before=_scores(directory, [e for e in full if e["version"] == 0]),
        after=_scores(directory, [e for e in full if e["version"] == last and last > 0]),
        curve=_curve(log),
        audit=audit(log, method.cohorts(experiment.seed)),
        totals=totals(log),
        wall_s=log[-1]["t"] - log[0]["t"],
    )


def _scores(directory: RunDirectory, evaluated: list[Event]) -> dict[str, dict[str, Score]]:
    scores: dict[str, dict[str, Score]] = {}
    for event in evaluated:
        rows = directory.rows(event["file"])
        source = str(directory.evaluations / event["file"])
        for decoding in event["success"]:
            picked = scoring.outcomes(rows, decoding=decoding, source=source)
            scores.setdefault(event["split"], {})[decoding] = scoring.score(picked)
    return scores


def _curve(log: list[Event]) -> tuple[tuple[int, int, float], ...]:
    points: list[tuple[int, int, float]] = []
    episodes = 0
    for event in log:
        if event["kind"] == "finished":
            episodes += event["episodes"]
        elif event["kind"] == "evaluated" and event["file"].endswith("-subset.jsonl"):
            value = event["success"].get("greedy")
            if value is not None:
                points.append((event["version"], episodes, value))
    return tuple(points)
