"""An audit accepts a log that follows its schedule, and names what is wrong in one that was tampered with."""

import copy

import pytest

from harness.audit import audit
from harness.cohorts import ControlledCohorts, NaturalCohorts
from harness.schedule import ControlledSchedule, NaturalSchedule


def event(n, kind, **fields):
    return {"n": n, "t": float(n), "kind": kind, **fields}


def entry(member, version, now):
    return {"member": member, "staleness": now - version, "in_flight": now - version, "in_queue": 0}


def log_of(*updates, finished=True):
    """Each update is (version consumed at, [(member, birth)...], [late members])."""
    births = {member: birth for _, cohort, _ in updates for member, birth in cohort}
    births |= {member: now - 2 for now, _, late in updates for member in late}
    events = [event(0, "run_started")]
    for now, cohort, late in updates:
        for member, birth in sorted(births.items()):
            if birth == now:
                events.append(event(len(events), "dispatched", member=member, version=birth))
        events.append(
            event(
                len(events),
                "updated",
                version=now + 1,
                cohort=[entry(member, birth, now) for member, birth in cohort],
                late=[[member, births[member]] for member in late],
            )
        )
    return [*events, event(len(events), "run_finished")] if finished else events


def synchronous():
    return log_of((0, [(0, 0), (1, 0)], []), (1, [(2, 1), (3, 1)], []))


def schedule():
    return ControlledCohorts(ControlledSchedule(2, pair=False), 0)


def test_a_synchronous_log_passes():
    found = audit(synchronous(), schedule())
    assert found.problems == ()
    assert (found.dispatched, found.consumed, found.staleness, found.bound) == (4, 4, {0: 4}, 0)


def test_a_natural_log_within_its_bound_passes_and_counts_what_came_late():
    log = log_of((0, [(0, 0), (1, 0)], []), (1, [(2, 1), (3, 0)], []), (2, [(5, 2), (6, 1)], [4]))
    found = audit(log, NaturalCohorts(NaturalSchedule(2, 1, "drop", pair=False)))
    assert found.problems == ()
    assert (found.consumed, found.dropped_late, found.staleness) == (6, 1, {0: 4, 1: 2})


def tamper(log, kind, number, change):
    log = copy.deepcopy(log)
    change([e for e in log if e["kind"] == kind][number])
    return log


def without(log, kind, number):
    victim = [e for e in log if e["kind"] == kind][number]
    return [e for e in log if e is not victim]


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (without(synchronous(), "dispatched", 0), "consumed but never dispatched"),
        (without(synchronous(), "updated", 1), "have no end, though the run has finished"),
        (without(synchronous(), "updated", 0), "follows version 0"),
        (tamper(synchronous(), "updated", 1, lambda e: e["cohort"][0].update(staleness=1)), "the log says 1"),
        (tamper(synchronous(), "updated", 1, lambda e: e["cohort"].pop()), "not the one asked for"),
        (tamper(synchronous(), "updated", 1, lambda e: e["cohort"].append(entry(0, 0, 1))), "has 2 ends"),
        (
            tamper(synchronous(), "updated", 1, lambda e: e["cohort"].append(entry(0, 0, 1))),
            "over the bound of 0",
        ),
        (tamper(synchronous(), "dispatched", 2, lambda e: e.update(member=1)), "dispatched for two versions"),
    ],
)
def test_a_tampered_log_is_found_out(log, sentence):
    assert any(sentence in problem for problem in audit(log, schedule()).problems)


def test_a_stale_measurement_over_the_natural_bound_is_found():
    log = log_of((0, [(0, 0), (1, 0)], []), (1, [(2, 1), (3, 1)], []), (2, [(4, 2), (5, 0)], []))
    found = audit(log, NaturalCohorts(NaturalSchedule(2, 1, pair=False)))
    assert any("2 stale, over the bound of 1" in problem for problem in found.problems)


def test_an_unfinished_run_may_have_open_members():
    log = without(synchronous(), "run_finished", 0)
    found = audit(without(log, "updated", 1), schedule())
    assert found.problems == ()
    assert found.open == 2
