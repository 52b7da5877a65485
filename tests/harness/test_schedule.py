import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import streams
from harness.cohorts import ControlledCohorts, NaturalCohorts, split_staleness
from harness.schedule import (
    ControlledSchedule,
    NaturalSchedule,
    advantages,
    centered_ranks,
    cohort_at,
    staleness,
    zscores,
)


@pytest.mark.parametrize(
    ("update_from", "birth", "tau"), [(0, 0, 0), (1, 0, 1), (3, 3, 0), (4, 3, 1), (7, 3, 4)]
)
def test_staleness_counts_the_versions_between_birth_and_the_update(update_from, birth, tau):
    assert staleness(update_from, birth) == tau


def test_an_update_cannot_consume_the_future():
    with pytest.raises(ValueError, match="version 2"):
        staleness(1, 2)


@pytest.mark.parametrize(
    ("population", "fraction", "pair", "held"),
    [
        (30, 0.1, False, 3),
        (32, 0.1, False, 3),
        (32, 0.1, True, 4),
        (32, 1.0, True, 32),
        (32, 0.0, True, 0),
        (10, 0.25, False, 2),
    ],
)
def test_the_number_held_back_is_the_rounded_share_in_whole_pairs(population, fraction, pair, held):
    schedule = ControlledSchedule(population, 4, fraction, pair=pair)
    assert schedule.held_count() == held
    lags = schedule.lags(np.random.default_rng(0))
    assert sum(lag > 0 for lag in lags) == held
    assert all(lag in (0, 4) for lag in lags)
    if pair:
        assert all(lags[i] == lags[i + 1] for i in range(0, population, 2))


def test_cohorts_of_a_delay_of_two_worked_by_hand():
    lags = {0: (0, 2, 0), 1: (2, 0, 0), 2: (0, 0, 2), 3: (0, 0, 0)}
    assert cohort_at(0, lags) == [(0, 0), (0, 2)]
    assert cohort_at(1, lags) == [(1, 1), (1, 2)]
    assert cohort_at(2, lags) == [(0, 1), (2, 0), (2, 1)]
    assert cohort_at(3, lags) == [(1, 0), (3, 0), (3, 1), (3, 2)]


def test_lag_laws_have_their_means_and_bounds():
    uniform = ControlledSchedule(2000, 6, 1.0, "uniform").lags(np.random.default_rng(1))
    assert set(uniform) == set(range(7))
    assert np.mean(uniform) == pytest.approx(3.0, abs=0.2)
    geometric = ControlledSchedule(4000, 3, 1.0, "geometric", truncation=40).lags(np.random.default_rng(1))
    assert np.mean(geometric) == pytest.approx(3.0, abs=0.25)
    assert (
        max(ControlledSchedule(4000, 3, 1.0, "geometric", truncation=5).lags(np.random.default_rng(1))) == 5
    )


def drive(cohorts, updates: int, workers: int, order: random.Random, fail: float = 0.0):
    """Run a schedule with workers that finish in a random order; what each update consumed, and the accounts."""
    running: dict[int, int] = {}
    births: dict[int, int] = {}
    finished_at: dict[int, int] = {}
    consumed, dropped, failed = [], [], []
    version = next_id = 0
    while version < updates:
        while version < updates and cohorts.ready(version):
            cohort, late = cohorts.take(version)
            consumed.append([(member, births[member], finished_at[member]) for member in cohort])
            dropped += late
            version += 1
        if version == updates:
            break
        while len(running) < workers and cohorts.may_launch(version):
            for _ in range(cohorts.unit):
                cohorts.launched(next_id, version)
                births[next_id] = version
                running[next_id] = version
                next_id += 1
        assert running, "the schedule is stuck"
        first = order.choice(sorted(running))
        unit = [first] if cohorts.unit == 1 else [first - first % 2, first - first % 2 + 1]
        for member in unit:
            birth = running.pop(member)
            if order.random() < fail:
                cohorts.failed(member)
                failed.append(member)
            else:
                cohorts.finished(member, birth)
                finished_at[member] = version
    return consumed, dropped, failed, cohorts.waiting(), births


@given(
    population=st.integers(1, 6),
    bound=st.integers(0, 4),
    workers=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    pair=st.booleans(),
    late=st.sampled_from(["wait", "drop"]),
)
def test_natural_asynchrony_keeps_the_bound_and_loses_nothing(population, bound, workers, seed, pair, late):
    population = 2 * population if pair else population
    cohorts = NaturalCohorts(NaturalSchedule(population, bound, late, pair=pair))
    consumed, dropped, failed, waiting, births = drive(cohorts, 12, workers, random.Random(seed))
    flat = [member for cohort in consumed for member, _, _ in cohort]
    assert sorted([*flat, *dropped, *failed, *waiting]) == sorted(births)
    for version, cohort in enumerate(consumed):
        assert len(cohort) == population
        for _, birth, at in cohort:
            total, in_flight, in_queue = split_staleness(version, birth, at)
            assert 0 <= total <= bound
            assert in_flight >= 0
            assert in_queue >= 0
        if pair:
            ids = {member for member, _, _ in cohort}
            assert all(member ^ 1 in ids for member in ids)
    if late == "wait":
        assert not dropped


@given(seed=st.integers(0, 10**6), bound=st.integers(0, 3), workers=st.integers(1, 9))
def test_failures_never_block_natural_asynchrony(seed, bound, workers):
    cohorts = NaturalCohorts(NaturalSchedule(3, bound))
    consumed, dropped, failed, waiting, births = drive(cohorts, 8, workers, random.Random(seed), fail=0.2)
    flat = [member for cohort in consumed for member, _, _ in cohort]
    assert sorted([*flat, *dropped, *failed, *waiting]) == sorted(births)
    assert len(consumed) == 8


def test_two_stragglers_of_one_version_cannot_fall_due_together():
    """N = 1, S = 2: a, b, c start at version 0; when a and then d (born at 1) have finished, firing for d would leave b and c
    both due at version 2, where only one can be consumed."""
    schedule = NaturalSchedule(1, 2)
    assert schedule.may_update(0, [0], [0, 0])
    assert not schedule.may_update(1, [1], [0, 0])
    assert schedule.may_update(1, [0, 1], [0])


@given(population=st.integers(1, 8), workers=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_async_0_consumes_exactly_what_sync_consumes(population, workers, seed):
    natural = drive(NaturalCohorts(NaturalSchedule(population, 0)), 6, workers, random.Random(seed))
    sync = drive(ControlledCohorts(ControlledSchedule(population), 0), 6, workers, random.Random(seed + 1))
    assert [[m for m, _, _ in cohort] for cohort in natural[0]] == [
        [m for m, _, _ in cohort] for cohort in sync[0]
    ]
    assert [m for m, _, _ in sync[0][2]] == list(range(2 * population, 3 * population))


@given(
    groups=st.integers(1, 8),
    delay=st.integers(0, 5),
    fraction=st.floats(0, 1),
    law=st.sampled_from(["constant", "uniform", "geometric"]),
    pair=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_controlled_schedules_conserve_and_deliver_each_lag(groups, delay, fraction, law, pair, seed):
    population = 2 * groups if pair else groups
    schedule = ControlledSchedule(population, delay, fraction, law, truncation=7, pair=pair)
    cohorts = ControlledCohorts(schedule, seed)
    consumed, dropped, failed, waiting, births = drive(cohorts, 10, 3, random.Random(seed))
    flat = [member for cohort in consumed for member, _, _ in cohort]
    assert not dropped
    assert not failed
    assert sorted([*flat, *waiting]) == sorted(births) == list(range(10 * population))
    asked = {b * population + i: lag for b in range(10) for i, lag in enumerate(cohorts.lags(b))}
    for version, cohort in enumerate(consumed):
        for member, birth, _ in cohort:
            assert staleness(version, birth) == asked[member] <= schedule.maximum_staleness()
    assert all(births[member] + asked[member] >= 10 for member in waiting)


def test_everything_held_back_leaves_the_first_cohorts_empty_and_then_full():
    cohorts = ControlledCohorts(ControlledSchedule(4, 3, 1.0), 0)
    consumed, *_ = drive(cohorts, 6, 2, random.Random(0))
    assert [len(cohort) for cohort in consumed] == [0, 0, 0, 4, 4, 4]


def test_a_fraction_of_zero_is_synchronous():
    cohorts = ControlledCohorts(ControlledSchedule(4, 3, 0.0), 0)
    consumed, *_ = drive(cohorts, 4, 2, random.Random(0))
    assert [[member for member, _, _ in cohort] for cohort in consumed] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12, 13, 14, 15],
    ]


def test_who_is_held_back_depends_on_the_run_seed_only():
    one = ControlledCohorts(ControlledSchedule(32, 4, 0.25), 5)
    other = ControlledCohorts(ControlledSchedule(32, 4, 0.25), 5)
    other.lags(3)
    assert [one.lags(v) for v in range(4)] == [other.lags(v) for v in range(4)]
    assert one.lags(0) != one.lags(1)
    assert one.lags(0) != ControlledCohorts(ControlledSchedule(32, 4, 0.25), 6).lags(0)


def test_zscores_worked_by_hand():
    assert zscores([1.0, 2.0, 3.0, 4.0]) == pytest.approx(
        [-1.3416407, -0.4472136, 0.4472136, 1.3416407], abs=1e-6
    )
    assert zscores([0.3, 0.3, 0.3]) == [0.0, 0.0, 0.0]


def test_centered_ranks_worked_by_hand_with_a_tie():
    assert centered_ranks([5.0, 1.0, 1.0, 9.0]) == pytest.approx([1 / 6, -1 / 3, -1 / 3, 0.5])


def test_normalisation_within_versions_removes_the_shift_between_them():
    fitness, births = [0.1, 0.2, 0.7, 0.8], [0, 0, 1, 1]
    pooled = advantages(fitness, births, [()] * 4)
    within = advantages(fitness, births, [()] * 4, scope="version")
    assert pooled[1] < 0 < pooled[2]
    assert within == pytest.approx([-1.0, 1.0, -1.0, 1.0], abs=1e-6)


def test_normalisation_by_task_removes_how_hard_a_task_is():
    returns = [(("easy", 1.0),), (("easy", 0.9),), (("hard", 0.2),), (("hard", 0.1),)]
    got = advantages([1.0, 0.9, 0.2, 0.1], [0] * 4, returns, scope="task")
    assert got == pytest.approx([1.0, -1.0, 1.0, -1.0], abs=1e-5)


def test_streams_are_independent_of_order_and_told_apart_by_type():
    assert streams.derive(0, "a", 1) == streams.derive(0, "a", 1)
    assert (
        len(
            {
                streams.derive(0, "a", 1),
                streams.derive(0, "a", "1"),
                streams.derive(0, "a1"),
                streams.derive(1, "a", 1),
            }
        )
        == 4
    )
