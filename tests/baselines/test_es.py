"""The ES learner on workers that are played: any order of completion, failures, and the update by hand."""

import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.es import AsyncES, AsyncESSettings, ESSettings, SyncES
from harness import registry
from harness.audit import audit
from harness.errors import InfrastructureError
from harness.events import EventLog
from harness.interfaces import Measurement
from harness.workers.evaluator import MemberResult
from harness.workers.local import Completed


def fitness_of(member):
    """Anything fixed: what a member scores depends on its id only."""
    return (member.member_id * 37 % 11) / 11


class PlayedWorkers:
    """Finishes jobs in the order that ``choose(number of running jobs)`` says; ``broken(job)`` gives an error or None."""

    def __init__(self, count, choose, broken):
        self.count, self.choose, self.broken = count, choose, broken
        self.jobs = []

    @property
    def idle(self):
        return self.count - len(self.jobs)

    @property
    def busy(self):
        return len(self.jobs)

    def submit(self, job):
        self.jobs.append(job)
        return 0

    def wait(self):
        job = self.jobs.pop(self.choose(len(self.jobs)))
        error = self.broken(job)
        if error:
            return [Completed(job, None, error, 0)]
        results = [MemberResult(measured(member), member, None) for member in job.members]
        return [Completed(job, results, None, 0)]


def measured(member):
    value = fitness_of(member)
    return Measurement(
        member=member, fitness=value, task_returns=(("t", value),), episodes=1, successes=0, generated_tokens=1,
        worker_s=0.0, policy_s=0.0, environment_s=0.0, noise_s=0.0,
    )  # fmt: skip


class PlayedRun:
    """As much of ``harness.run.Run`` as the learner uses; no weights."""

    def __init__(self, path, workers, seed=3):
        self.log = EventLog(path / "events.jsonl", clock=lambda: 0.0)
        self.workers = workers
        self.experiment = types.SimpleNamespace(seed=seed, record=types.SimpleNamespace(trajectories="none"))
        self.directory = types.SimpleNamespace(path=path)
        self.train_tasks = 100
        self.version = 0
        self.applied = []

    def wait(self):
        return self.workers.wait()

    def update(self, terms, alpha):
        self.applied.append((tuple(terms), alpha))
        self.version += 1

    def evaluate_subset(self):
        pass

    def flush_trajectories(self):
        pass


def train(path, method, workers=2, choose=lambda running: 0, broken=lambda job: None):
    run = PlayedRun(path, PlayedWorkers(workers, choose, broken))
    run.log.append("run_started")
    method.train(run)
    run.log.append("run_finished")
    run.log.close()
    return run


def problems(run, method):
    return audit(run.log.events, method.cohorts(run.experiment.seed)).problems


def test_one_synchronous_update_by_hand(tmp_path):
    run = train(tmp_path, SyncES(ESSettings(updates=1, population=4, alpha=0.5)))
    fitness = np.array([0, 4, 8, 1]) / 11  # 37 i mod 11
    z = (fitness - fitness.mean()) / (fitness.std() + 1e-8)
    ((terms, alpha),) = run.applied
    assert alpha == 0.5
    assert [(t.noise_id, t.sign) for t in terms] == [(0, 1), (0, -1), (2, 1), (2, -1)]
    np.testing.assert_allclose([t.coefficient for t in terms], z / 4, rtol=1e-12)


def test_partners_share_noise_and_members_of_a_version_share_tasks(tmp_path):
    run = train(tmp_path, SyncES(ESSettings(updates=2, population=6)))
    dispatched = list(run.log.of("dispatched"))
    assert [(e["member"], e["version"], e["noise"], e["sign"]) for e in dispatched[:3]] == [
        (0, 0, 0, 1),
        (1, 0, 0, -1),
        (2, 0, 2, 1),
    ]
    assert len(dispatched) == 12


def test_without_antithetic_pairs_every_member_has_noise_of_its_own(tmp_path):
    run = train(tmp_path, SyncES(ESSettings(updates=1, population=5, antithetic=False)))
    assert [(t.noise_id, t.sign) for t in run.applied[0][0]] == [(i, 1) for i in range(5)]


METHODS = [
    SyncES(ESSettings(updates=5, population=4)),
    AsyncES(AsyncESSettings(updates=7, population=4, delay=2, delay_fraction=0.5)),
    AsyncES(AsyncESSettings(updates=7, population=4, delay=3, delay_fraction=0.5, delay_law="uniform")),
]


@pytest.mark.parametrize("method", METHODS, ids=["sync", "constant delay", "uniform delay"])
@given(data=st.data(), workers=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_controlled_schedule_gives_the_same_updates_in_any_order_of_completion(
    method, data, workers, tmp_path_factory
):
    pick = lambda running: data.draw(st.integers(0, running - 1))  # noqa: E731
    ordered = train(tmp_path_factory.mktemp("a"), method)
    shuffled = train(tmp_path_factory.mktemp("b"), method, workers, pick)
    assert shuffled.applied == ordered.applied
    assert problems(shuffled, method) == ()


@given(
    data=st.data(), workers=st.integers(1, 6), bound=st.integers(0, 3), late=st.sampled_from(["wait", "drop"])
)
@settings(max_examples=40, deadline=None)
def test_natural_asynchrony_keeps_its_bound_in_any_order_of_completion(
    data, workers, bound, late, tmp_path_factory
):
    method = AsyncES(AsyncESSettings(updates=6, population=4, max_staleness=bound, late=late))
    pick = lambda running: data.draw(st.integers(0, running - 1))  # noqa: E731
    run = train(tmp_path_factory.mktemp("n"), method, workers, pick)
    assert run.version == 6
    assert problems(run, method) == ()
    found = audit(run.log.events, method.cohorts(3))
    assert max(found.staleness) <= bound
    if late == "wait":
        assert found.dropped_late == 0


def test_a_unit_that_fails_is_missing_from_its_cohort_and_never_a_zero(tmp_path):
    def broken(job):
        return "the sandbox broke" if job.members[0].member_id == 2 else None

    method = SyncES(ESSettings(updates=2, population=4))
    run = train(tmp_path, method, broken=broken)
    first = run.applied[0][0]
    assert [t.noise_id for t in first] == [0, 0]
    assert [t.coefficient for t in first] == pytest.approx(
        [-0.5, 0.5]
    )  # z of two values over a cohort of two
    assert [e["member"] for e in run.log.of("failed")] == [2, 3]
    assert problems(run, method) == ()


def test_when_nothing_can_be_measured_the_run_stops_and_says_how_to_go_on(tmp_path):
    with pytest.raises(
        InfrastructureError, match=r"the disk is gone; when that is mended: bench run --resume"
    ):
        train(tmp_path, SyncES(ESSettings(updates=2, population=4)), broken=lambda job: "the disk is gone")


def test_equal_fitness_is_an_empty_update_and_the_version_advances(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "fitness_of", lambda member: 0.25)
    run = train(tmp_path, SyncES(ESSettings(updates=2, population=4)))
    assert [e["empty"] for e in run.log.of("updated")] == [True, True]
    assert run.version == 2


def test_a_delay_writes_when_a_held_measurement_is_due(tmp_path):
    method = AsyncES(AsyncESSettings(updates=4, population=4, delay=2, delay_fraction=0.5))
    run = train(tmp_path, method)
    held = list(run.log.of("held"))
    assert len(held) == 8  # two of four, four times
    assert all(e["due"] == e["version"] + 2 for e in held)


def test_methods_are_found_by_name_and_documented():
    assert registry.method_class("sync-es") is SyncES
    assert registry.method_class("async-es") is AsyncES
    for field in AsyncESSettings.model_fields.values():
        assert field.description
