"""Evolution strategies: synchronous, naturally asynchronous with bounded staleness, and with controlled delay. One learner.

For a cohort of N measurements at version v (source: *ES at Scale*, arXiv 2509.24372, and the paper):

    A_i       = (F_i - mean F) / (std F + 1e-8)                    population std; other shapings and scopes are settings
    theta_v+1 = theta_v + alpha * (1/N) * sum_i A_i * sign_i * eps(noise_i)

There is no 1/sigma (alpha absorbs it) and no off-policy correction: a stale measurement keeps the noise it was measured with
and moves the current weights. N is the size of the cohort at hand, which is smaller while a pipeline of delays fills.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from harness.cohorts import Cohorts, ControlledCohorts, NaturalCohorts, split_staleness
from harness.config import Table
from harness.errors import EnvironmentFault, InfrastructureError
from harness.events import Event
from harness.interfaces import Measurement, Member, UpdateTerm
from harness.run import Run
from harness.schedule import ControlledSchedule, LagLaw, Late, NaturalSchedule, Scope, Shaping, advantages
from harness.workers.evaluator import MemberJob, MemberResult, training_tasks


class ESSettings(Table):
    updates: int = Field(default=20, ge=1)
    """Updates to make."""
    population: int = Field(default=32, ge=1)
    """Measurements per update, N (the members evaluated at each version)."""
    tasks_per_member: int = Field(default=8, ge=1)
    """Training tasks on which each member's fitness is measured; the same ones for all members of a version."""
    sigma: float = Field(default=0.01, gt=0)
    """Standard deviation of the perturbation."""
    alpha: float = Field(default=0.02, gt=0)
    """Step size; it contains the usual 1/sigma."""
    antithetic: bool = True
    """Members come in pairs that share their noise with opposite signs; a pair counts as two."""
    shaping: Shaping = "zscore"
    """From fitness to advantage."""
    normalization: Scope = "cohort"
    """Over what fitness is normalised: the cohort, each birth version in it, or each task first."""
    temperature: float = Field(default=0.0, ge=0)
    """Decoding of training episodes; 0 is greedy."""

    @model_validator(mode="after")
    def _pairs(self) -> ESSettings:
        if self.antithetic and self.population % 2:
            raise ValueError(
                f"population = {self.population} with antithetic pairs; accepted: an even population"
            )
        return self


class AsyncESSettings(ESSettings):
    delay: int | None = Field(default=None, ge=0, le=100_000)
    """Controlled schedule: updates by which the held-back measurements are late."""
    delay_fraction: float | None = Field(default=None, ge=0, le=1)
    """Share of each version's measurements that is held back (0.1 when a delay is given)."""
    delay_law: LagLaw = "constant"
    """Every lag equal to the delay, uniform over 0..delay, or geometric with that mean."""
    delay_truncation: int | None = Field(default=None, ge=1)
    """Largest geometric lag; by default four times the delay."""
    max_staleness: int | None = Field(default=None, ge=0, le=100_000)
    """Natural asynchrony: the bound S. 1 when neither a delay nor a bound is given."""
    late: Late = "wait"
    """Natural asynchrony: an update waits for stragglers, or goes on and drops what comes too late."""

    @model_validator(mode="after")
    def _one_schedule(self) -> AsyncESSettings:
        if self.delay is not None and self.max_staleness is not None:
            raise ValueError(
                f"delay = {self.delay} (controlled schedule) and max_staleness = {self.max_staleness} (natural asynchrony) "
                "contradict each other; accepted: one of them"
            )
        if self.delay is None:
            for name in ("delay_fraction", "delay_truncation"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} = {getattr(self, name)} needs a delay; accepted: {name} together with delay"
                    )
        return self


class SyncES:
    """N members at the newest version, a barrier, one update."""

    name: ClassVar[str] = "sync-es"
    source: ClassVar[str] = "arXiv 2509.24372"
    Settings: ClassVar[type] = ESSettings

    def __init__(self, settings: ESSettings) -> None:
        self.settings = settings

    @property
    def updates(self) -> int:
        return self.settings.updates

    def cohorts(self, run_seed: int) -> Cohorts:
        return ControlledCohorts(
            ControlledSchedule(self.settings.population, pair=self.settings.antithetic), run_seed
        )

    def plan(self) -> dict[str, Any]:
        s = self.settings
        members = s.updates * s.population
        return {"updates": s.updates, "members": members, "episodes": members * s.tasks_per_member}

    def train(self, run: Run) -> None:
        learn(run, self.settings, self.cohorts(run.experiment.seed))


class AsyncES(SyncES):
    """Asynchronous ES: a controlled delay (``delay``), or natural asynchrony under a bound (``max_staleness``)."""

    name: ClassVar[str] = "async-es"
    source: ClassVar[str] = (
        "Asynchronous Is Nearly Free for Evolution Strategies on Long-Horizon (LLM) Agentic Tasks"
    )
    Settings: ClassVar[type] = AsyncESSettings

    def __init__(self, settings: AsyncESSettings) -> None:
        super().__init__(settings)
        self.settings: AsyncESSettings = settings

    def cohorts(self, run_seed: int) -> Cohorts:
        s = self.settings
        if s.delay is None:
            bound = 1 if s.max_staleness is None else s.max_staleness
            return NaturalCohorts(NaturalSchedule(s.population, bound, s.late, pair=s.antithetic))
        fraction = 0.1 if s.delay_fraction is None else s.delay_fraction
        truncation = 4 * s.delay if s.delay_truncation is None else s.delay_truncation
        schedule = ControlledSchedule(
            s.population, s.delay, fraction, s.delay_law, truncation, pair=s.antithetic
        )
        return ControlledCohorts(schedule, run_seed)


# -------------------------------------------------------------------------------------------------------- the learner


class _Book:
    """What the log says: measurements that wait, members that were launched and not heard of, the next member id."""

    def __init__(self, cohorts: Cohorts) -> None:
        self.cohorts = cohorts
        self.measured: dict[int, tuple[Measurement, int]] = {}
        self.running: dict[int, Member] = {}
        self.next_id = 0
        self.failures_in_a_row = 0

    def replay(self, log: Sequence[Event]) -> None:
        """Bring an empty book to the state that the log describes. Members that were running stay in ``running``."""
        for event in log:
            kind = event["kind"]
            if kind == "dispatched":
                member = Member(event["member"], event["version"], event["noise"], event["sign"])
                if member.member_id >= self.next_id:
                    self.launched(member)
            elif kind == "finished":
                self.finished(_measurement(event, self.running[event["member"]]), event["at"])
            elif kind == "failed":
                self.failed(event["member"])
            elif kind == "updated":
                self.cohorts.take(event["version"] - 1)
                for entry in event["cohort"]:
                    del self.measured[entry["member"]]
                for member, _ in event["late"]:
                    del self.measured[member]
        if self.next_id % self.cohorts.unit:
            # The log was cut between two antithetic partners: the second one is still to be launched.
            partner = self.running[self.next_id - 1]
            self.launched(Member(self.next_id, partner.version, partner.noise_id, -partner.sign))

    def launched(self, member: Member) -> None:
        self.next_id = max(self.next_id, member.member_id + 1)
        self.running[member.member_id] = member
        self.cohorts.launched(member.member_id, member.version)

    def finished(self, measurement: Measurement, at: int) -> None:
        member = measurement.member
        del self.running[member.member_id]
        self.measured[member.member_id] = (measurement, at)
        self.cohorts.finished(member.member_id, member.version)
        self.failures_in_a_row = 0

    def failed(self, member_id: int) -> None:
        del self.running[member_id]
        self.cohorts.failed(member_id)
        self.failures_in_a_row += 1


def _measurement(event: Event, member: Member) -> Measurement:
    return Measurement(
        member=member,
        fitness=event["fitness"],
        task_returns=tuple((task, value) for task, value in event["task_returns"]),
        episodes=event["episodes"],
        successes=event["successes"],
        generated_tokens=event["tokens"],
        worker_s=event["worker_s"],
        policy_s=event["policy_s"],
        environment_s=event["environment_s"],
        noise_s=event["noise_s"],
    )


def learn(run: Run, settings: ESSettings, cohorts: Cohorts) -> None:
    """Launch members while the schedule admits them, update when it says so, until ``settings.updates`` are made."""
    book = _Book(cohorts)
    book.replay(run.log.events)
    interrupted = _units(book.running.values())
    run.evaluate_subset()
    while True:
        while run.version < settings.updates and cohorts.ready(run.version):
            _update(run, settings, book)
            run.evaluate_subset()
        if run.version >= settings.updates:
            break
        while run.workers.idle and (interrupted or cohorts.may_launch(run.version)):
            if interrupted:
                _dispatch(run, settings, interrupted.pop(0), attempt=2)
            else:
                unit = _new_unit(book.next_id, run.version, settings.antithetic)
                for member in unit:
                    book.launched(member)
                _dispatch(run, settings, unit, attempt=1)
        if run.workers.busy == 0:
            raise EnvironmentFault(
                f"the schedule is stuck at version {run.version}: nothing runs and nothing may start"
            )
        for done in run.wait():
            _record(run, settings, book, done.job, done.result, done.error)
    while run.workers.busy:
        run.wait()
    births = {event["member"]: event["version"] for event in run.log.of("dispatched")}
    dropped = {event["member"] for event in run.log.of("dropped")}
    for member_id in cohorts.waiting():
        if member_id not in dropped:
            run.log.append("dropped", member=member_id, version=births[member_id], reason="end")


def _new_unit(next_id: int, version: int, antithetic: bool) -> tuple[Member, ...]:
    if not antithetic:
        return (Member(next_id, version, next_id, 1),)
    return (Member(next_id, version, next_id, 1), Member(next_id + 1, version, next_id, -1))


def _units(members: Iterable[Member]) -> list[tuple[Member, ...]]:
    """Members that were running when the run was cut, antithetic partners together."""
    units: dict[int, list[Member]] = {}
    for member in sorted(members, key=lambda member: member.member_id):
        units.setdefault(member.noise_id, []).append(member)
    return [tuple(unit) for unit in units.values()]


def _dispatch(run: Run, settings: ESSettings, unit: tuple[Member, ...], attempt: int) -> None:
    version = unit[0].version
    job = MemberJob(
        members=unit,
        sigma=settings.sigma,
        task_indices=training_tasks(run.experiment.seed, version, settings.tasks_per_member, run.train_tasks),
        temperature=settings.temperature,
        keep_trajectories=run.experiment.record.trajectories == "all",
    )
    worker = run.workers.submit(job)
    for member in unit:
        run.log.append(
            "dispatched",
            member=member.member_id,
            version=member.version,
            noise=member.noise_id,
            sign=member.sign,
            worker=worker,
            attempt=attempt,
        )


def _record(
    run: Run,
    settings: ESSettings,
    book: _Book,
    job: MemberJob,
    results: list[MemberResult] | None,
    error: str | None,
) -> None:
    """Enter the results of one unit. A unit of which one member could not be measured has failed as a whole."""
    broken = error or next((result.error for result in results or () if result.error), None)
    if broken is not None:
        if book.failures_in_a_row + len(job.members) > settings.population:
            raise InfrastructureError(
                f"{book.failures_in_a_row} members failed one after another; the last: {broken}; "
                f"when that is mended: bench run --resume {run.directory.path}"
            )
        for member in job.members:
            run.log.append("failed", member=member.member_id, version=member.version, error=broken)
            book.failed(member.member_id)
        return
    for result in results or ():
        measured = result.measurement
        assert measured is not None
        member = measured.member
        run.log.append(
            "finished",
            member=member.member_id,
            version=member.version,
            at=run.version,
            fitness=measured.fitness,
            task_returns=[list(pair) for pair in measured.task_returns],
            episodes=measured.episodes,
            successes=measured.successes,
            tokens=measured.generated_tokens,
            worker_s=round(measured.worker_s, 6),
            policy_s=round(measured.policy_s, 6),
            environment_s=round(measured.environment_s, 6),
            noise_s=round(measured.noise_s, 6),
        )
        book.finished(measured, run.version)
        due = book.cohorts.due(member.member_id)
        if due is not None:
            run.log.append("held", member=member.member_id, version=member.version, due=due)
        if result.trajectories:
            run.keep(member.version, result.trajectories, member=member.member_id)


def _update(run: Run, settings: ESSettings, book: _Book) -> None:
    version = run.version
    started = time.perf_counter()
    ids, late = book.cohorts.take(version)
    dropped = [[member_id, book.measured.pop(member_id)[0].member.version] for member_id in late]
    cohort = [book.measured.pop(member_id) for member_id in ids]
    fitness = [measurement.fitness for measurement, _ in cohort]
    scores = (
        advantages(
            fitness,
            [measurement.member.version for measurement, _ in cohort],
            [measurement.task_returns for measurement, _ in cohort],
            settings.shaping,
            settings.normalization,
        )
        if cohort
        else []
    )
    entries = []
    for (measurement, at), score in zip(cohort, scores, strict=True):
        member = measurement.member
        total, in_flight, in_queue = split_staleness(version, member.version, at)
        entries.append(
            {
                "member": member.member_id,
                "version": member.version,
                "noise": member.noise_id,
                "sign": member.sign,
                "staleness": total,
                "in_flight": in_flight,
                "in_queue": in_queue,
                "advantage": score,
                "coefficient": score / len(cohort),
            }
        )
    terms = [UpdateTerm(entry["noise"], entry["sign"], entry["coefficient"]) for entry in entries]  # type: ignore[arg-type]
    weights = run.update(terms, settings.alpha)
    run.flush_trajectories()
    run.log.append(
        "updated",
        version=run.version,
        alpha=settings.alpha,
        cohort=entries,
        late=dropped,
        empty=not any(scores),
        fitness_mean=float(np.mean(fitness)) if fitness else None,
        fitness_std=float(np.std(fitness)) if fitness else None,
        update_s=round(time.perf_counter() - started, 6),
        weights_sha256=weights,
    )
