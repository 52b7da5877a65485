"""Proves from the event log alone that the schedule asked for is the one that was delivered.

Conservation: every dispatched member has exactly one end: consumed, dropped (late, or left at the end), failed, or still open
in a run that has not finished. The bound: no consumed measurement is staler than asked. The schedule: for a controlled
schedule, each cohort is exactly the one that the seeded lags prescribe, so the staleness histogram is too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cohorts import Cohorts, ControlledCohorts, NaturalCohorts
from harness.events import Event
from harness.schedule import cohort_at, staleness


@dataclass(frozen=True)
class Audit:
    """``problems`` is empty for a run that is as it should be. Histograms are by staleness, over consumed measurements."""

    dispatched: int
    consumed: int
    dropped_late: int
    dropped_end: int
    failed: int
    open: int
    staleness: dict[int, int]
    in_flight: dict[int, int]
    in_queue: dict[int, int]
    bound: int
    problems: tuple[str, ...]

    def lines(self) -> list[str]:
        """The findings, a sentence each."""
        histogram = ", ".join(f"{count} at {tau}" for tau, count in sorted(self.staleness.items())) or "none"
        return [
            f"conservation: {self.dispatched} dispatched = {self.consumed} consumed + {self.dropped_late} dropped late + "
            f"{self.dropped_end} dropped at the end + {self.failed} failed + {self.open} open",
            f"staleness: bound {self.bound}; consumed measurements: {histogram}",
        ]


def audit(log: Sequence[Event], cohorts: Cohorts) -> Audit:
    """Check a log against the schedule that its configuration asks for (unstarted ``cohorts``)."""
    problems: list[str] = []
    births: dict[int, int] = {}
    ends: dict[int, list[str]] = {}
    histograms: tuple[Counter[int], Counter[int], Counter[int]] = (Counter(), Counter(), Counter())
    version = 0
    failed: set[int] = set()
    bound = _bound(cohorts)
    for event in log:
        kind = event["kind"]
        if kind == "dispatched":
            if births.setdefault(event["member"], event["version"]) != event["version"]:
                problems.append(
                    f"event {event['n']}: member {event['member']} was dispatched for two versions"
                )
        elif kind == "failed":
            failed.add(event["member"])
            ends.setdefault(event["member"], []).append("failed")
        elif kind == "dropped":
            ends.setdefault(event["member"], []).append("end")
        elif kind == "updated":
            if event["version"] != version + 1:
                problems.append(
                    f"event {event['n']}: update to version {event['version']} follows version {version}"
                )
            ids = []
            for entry in event["cohort"]:
                member = entry["member"]
                ids.append(member)
                ends.setdefault(member, []).append("consumed")
                if member not in births:
                    problems.append(f"event {event['n']}: member {member} was consumed but never dispatched")
                    continue
                if births[member] > version:
                    problems.append(f"event {event['n']}: member {member} was consumed before its version")
                    continue
                tau = staleness(version, births[member])
                if tau != entry["staleness"] or tau != entry["in_flight"] + entry["in_queue"]:
                    problems.append(
                        f"event {event['n']}: member {member} is {tau} stale, the log says {entry['staleness']}"
                    )
                if tau > bound:
                    problems.append(
                        f"event {event['n']}: member {member} is {tau} stale, over the bound of {bound}"
                    )
                for histogram, value in zip(
                    histograms, (tau, entry["in_flight"], entry["in_queue"]), strict=True
                ):
                    histogram[value] += 1
            for member, _ in event["late"]:
                ends.setdefault(member, []).append("late")
            problems.extend(_cohort_problems(event, cohorts, version, ids, failed))
            version = event["version"]
    for member, kinds in sorted(ends.items()):
        if len(kinds) != 1 or member not in births:
            problems.append(f"member {member} has {len(kinds)} ends: {', '.join(kinds)}")
    count = Counter(kind for kinds in ends.values() for kind in kinds[:1])
    remaining = len(births) - len(ends)
    if remaining and log and log[-1]["kind"] == "run_finished":
        problems.append(f"{remaining} members were dispatched and have no end, though the run has finished")
    return Audit(
        len(births),
        count["consumed"],
        count["late"],
        count["end"],
        count["failed"],
        remaining,
        dict(histograms[0]),
        dict(histograms[1]),
        dict(histograms[2]),
        bound,
        tuple(problems),
    )


def _bound(cohorts: Cohorts) -> int:
    if isinstance(cohorts, ControlledCohorts):
        return cohorts.schedule.maximum_staleness()
    assert isinstance(cohorts, NaturalCohorts)
    return cohorts.schedule.max_staleness


def _cohort_problems(
    event: Event, cohorts: Cohorts, version: int, ids: list[int], failed: set[int]
) -> list[str]:
    """Whether the cohort of the update from ``version`` is the one that the schedule prescribes."""
    size = cohorts.schedule.population if isinstance(cohorts, ControlledCohorts | NaturalCohorts) else 0
    if isinstance(cohorts, NaturalCohorts):
        return [] if len(ids) == size else [f"event {event['n']}: a cohort of {len(ids)} instead of {size}"]
    assert isinstance(cohorts, ControlledCohorts)
    due = cohort_at(version, {birth: cohorts.lags(birth) for birth in range(version + 1)})
    asked = [birth * size + position for birth, position in due]
    if sorted(ids) != sorted(member for member in asked if member not in failed):
        return [
            f"event {event['n']}: the cohort of the update from version {version} is not the one asked for"
        ]
    return []
