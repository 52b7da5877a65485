import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.errors import RequestError
from harness.scoring import Outcome, clustered_t, outcomes, score, wilson


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (37, 256)])
def test_wilson_equals_scipys(k, n):
    wanted = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_the_clustered_interval_equals_scipys_t_interval():
    means = [0.0, 1 / 3, 2 / 3, 1.0, 1.0, 0.0, 1 / 3]
    wanted = stats.t.interval(0.95, len(means) - 1, loc=np.mean(means), scale=stats.sem(means))
    assert clustered_t(means) == pytest.approx(tuple(wanted), abs=1e-12)


def test_a_task_counts_once_however_many_seeds_it_has():
    rows = [Outcome("a", s, 1.0) for s in range(3)] + [Outcome("b", 0, 0.0)]
    assert score(rows).mean == 0.5


def test_with_several_seeds_the_interval_is_clustered_by_task():
    rows = [Outcome(str(t), s, float((t + s) % 3 == 0)) for t in range(30) for s in range(3)]
    got = score(rows)
    assert got.mean == pytest.approx(1 / 3)
    assert got.interval.method == "t"
    assert (got.tasks, got.seeds, got.episodes) == (30, 3, 90)
    assert got.per_seed == {s: pytest.approx(1 / 3) for s in range(3)}


def test_one_seed_or_an_arm_at_0_or_100_percent_gets_wilson():
    one = score([Outcome(str(t), None, float(t < 3)) for t in range(10)])
    assert (one.interval.low, one.interval.high) == pytest.approx(wilson(3, 10))
    none = score([Outcome(str(t), s, 0.0) for t in range(10) for s in range(3)])
    assert none.interval.method == "wilson"
    assert (none.interval.low, none.interval.high) == pytest.approx(wilson(0, 10))


def test_infrastructure_failures_are_missing_and_bounded_never_zero():
    rows = [
        Outcome("a", 0, 1.0),
        Outcome("a", 1, None),
        Outcome("b", 0, 1.0),
        Outcome("b", 1, 0.0),
        Outcome("c", 0, None),
    ]
    got = score(rows)
    assert got.mean == 0.75
    assert got.missing == 2
    assert got.worst_low == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert got.worst_high == pytest.approx((1 + 0.5 + 1) / 3)


def test_nothing_measured_has_no_score():
    got = score([Outcome("a", 0, None)])
    assert got.mean is None
    assert got.interval is None


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 4), st.sampled_from([0.0, 1.0, None])),
        min_size=1,
        unique_by=lambda x: x[:2],
    )
)
def test_means_stay_within_their_bounds(items):
    got = score([Outcome(str(t), s, v) for t, s, v in items])
    if got.mean is not None:
        assert got.worst_low - 1e-12 <= got.worst_high
        assert 0 <= got.interval.low <= got.mean <= got.interval.high <= 1 if got.interval else True


def test_pooled_seeds_undercover_and_the_clustered_interval_does_not():
    """A hierarchical model: a task's success probability is drawn once, its three seeds share it."""
    generator = np.random.default_rng(11)
    pooled = clustered = 0
    trials = 600
    for _ in range(trials):
        p = generator.beta(0.3, 0.3, size=100)
        hits = generator.random((100, 3)) < p[:, None]
        low, high = wilson(int(hits.sum()), 300)
        pooled += low <= 0.5 <= high
        low, high = clustered_t(hits.mean(axis=1).tolist())
        clustered += low <= 0.5 <= high
    assert 0.93 <= clustered / trials <= 0.97
    assert pooled / trials < 0.90


def row(**over):
    return {
        "task": "a",
        "evaluation_seed": None,
        "decoding": "greedy",
        "success": True,
        "return": 1.0,
        **over,
    }


def test_rows_are_validated_at_the_border():
    assert outcomes([row(), row(decoding="sampled", evaluation_seed=0)], decoding="greedy", source="x") == [
        Outcome("a", None, 1.0)
    ]
    with pytest.raises(RequestError, match=r"rows\.jsonl: row 2 repeats task 'a'"):
        outcomes([row(), row()], decoding="greedy", source="rows.jsonl")
    with pytest.raises(RequestError, match="success = 'yes'"):
        outcomes([row(success="yes")], decoding="greedy", source="x")
    with pytest.raises(RequestError, match="return = nan"):
        outcomes([row(**{"return": math.nan})], decoding="greedy", source="x", value="return")
    broken = row()
    del broken["task"]
    with pytest.raises(RequestError, match="row 1 has no 'task'"):
        outcomes([broken], decoding="greedy", source="x")
