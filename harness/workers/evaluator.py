"""What one worker holds and does: an engine, the master weights, an open suite; it evaluates members and plays episodes.

A worker is told only member ids, versions and updates: ``(noise id, sign, coefficient)``, or the name of a file of weights. No
weight travels after start. Updates are applied when a job needs their version, so that a worker that was restarted can serve any
version whose files are there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import streams
from harness.config import Experiment
from harness.errors import InfrastructureError
from harness.interfaces import Measurement, Member, Suite, Task, Trajectory, UpdateTerm
from harness.policies.factory import load_policy
from harness.policies.master import MasterWeights
from harness.rollout import Decoding, run_episodes


@dataclass(frozen=True, slots=True)
class Update:
    """One update of the seed log: ``master += alpha * sum(coefficient * sign * eps)``."""

    terms: tuple[UpdateTerm, ...]
    alpha: float


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A version given whole: fp32 safetensors under Hugging Face names, as ``MasterWeights.save`` writes them."""

    path: str


def bring_forward(master: MasterWeights, updates: Sequence[Update | WeightsFile]) -> None:
    """Apply updates in their order. A file of weights replaces all that came before it, so earlier ones are not needed. Raises
    InfrastructureError where the file is gone."""
    whole = max((i for i, update in enumerate(updates) if isinstance(update, WeightsFile)), default=0)
    for update in updates[whole:]:
        if isinstance(update, Update):
            master.update(update.terms, update.alpha)
            continue
        try:
            master.load(Path(update.path))
        except OSError as error:
            raise InfrastructureError(f"{update.path}: the weights cannot be read ({error})") from error


@dataclass(frozen=True, slots=True)
class MemberJob:
    """Evaluate these members (a unit: one, or two antithetic partners) of one version on the tasks of that version."""

    members: tuple[Member, ...]
    sigma: float
    task_indices: tuple[int, ...]
    temperature: float
    keep_trajectories: bool = False


@dataclass(frozen=True, slots=True)
class EpisodesJob:
    """Play tasks of a split with the unperturbed weights of ``version``."""

    version: int
    split: str
    task_indices: tuple[int, ...]
    temperature: float
    stream_name: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class GroupsJob:
    """Play ``samples`` training episodes of each of these tasks with the unperturbed weights of ``version``; the episodes of a
    task have one environment seed and decoding streams of their own. ``members``: the name of each group in the log."""

    version: int
    members: tuple[int, ...]
    task_indices: tuple[int, ...]
    samples: int
    temperature: float
    stream_name: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class GroupsResult:
    """``groups``: the trajectories of each task, in the order of the job, with token ids and log-probabilities."""

    groups: tuple[tuple[Trajectory, ...], ...]
    worker_s: float


@dataclass(frozen=True, slots=True)
class MemberResult:
    """``error`` is set where a member could not be measured (an episode kept failing): it is missing, not bad."""

    measurement: Measurement | None
    member: Member
    error: str | None
    trajectories: tuple[Trajectory, ...] = ()


class Evaluator:
    """One worker's state. ``updates`` grows; ``version`` is the version of the master weights held now."""

    def __init__(self, experiment: Experiment, suite: Suite) -> None:
        self.experiment = experiment
        self.suite = suite
        self.policy = load_policy(experiment.policy, suite)
        self.master = MasterWeights(self.policy.named_parameters(), experiment.seed)
        self.agent = suite.agent()
        self.updates: list[Update | WeightsFile] = []
        self.version = 0
        self._tasks: dict[str, Sequence[Task]] = {}

    async def open(self) -> None:
        await self.suite.open(self.experiment.evaluation.concurrency)

    async def close(self) -> None:
        await self.suite.close()

    def _to_version(self, version: int) -> None:
        if version > len(self.updates):
            raise InfrastructureError(
                f"a job wants version {version}, but only {len(self.updates)} updates have arrived"
            )
        if version < self.version:
            self.policy = load_policy(self.experiment.policy, self.suite)
            self.master = MasterWeights(self.policy.named_parameters(), self.experiment.seed)
            self.version = 0
        bring_forward(self.master, self.updates[self.version : version])
        self.version = version

    def _split(self, split: str) -> Sequence[Task]:
        if split not in self._tasks:
            self._tasks[split] = self.suite.tasks(split)
        return self._tasks[split]

    async def _play(
        self, split: str, indices: Sequence[int], temperature: float, stream_name: tuple[str | int, ...]
    ) -> list[Trajectory]:
        tasks = self._split(split)
        return await run_episodes(
            self.policy,
            self.agent,
            self.suite,
            [tasks[index] for index in indices],
            Decoding(temperature, self.experiment.seed, stream_name),
            concurrency=self.experiment.evaluation.concurrency,
        )

    async def members(self, job: MemberJob) -> list[MemberResult]:
        results = []
        for member in job.members:
            started = time.perf_counter()
            self._to_version(member.version)
            self.master.write_member(member, job.sigma)
            self.policy.weights_changed()
            noise_s = time.perf_counter() - started
            # Antithetic partners, and all members of a version, meet the same tasks under the same decoding streams.
            trajectories = await self._play(
                "train", job.task_indices, job.temperature, ("train", member.version)
            )
            self.master.write_master()
            self.policy.weights_changed()
            worker_s = time.perf_counter() - started
            results.append(_measure(member, trajectories, worker_s, noise_s, job.keep_trajectories))
        return results

    async def episodes(self, job: EpisodesJob) -> list[Trajectory]:
        self._to_version(job.version)
        self.master.write_master()
        self.policy.weights_changed()
        return await self._play(job.split, job.task_indices, job.temperature, job.stream_name)

    async def groups(self, job: GroupsJob) -> GroupsResult:
        started = time.perf_counter()
        repeated = tuple(index for index in job.task_indices for _ in range(job.samples))
        played = await self.episodes(
            EpisodesJob(job.version, "train", repeated, job.temperature, job.stream_name)
        )
        groups = tuple(
            tuple(played[start : start + job.samples]) for start in range(0, len(played), job.samples)
        )
        return GroupsResult(groups, time.perf_counter() - started)

    async def run(self, job: Any) -> Any:
        if isinstance(job, MemberJob):
            return await self.members(job)
        return await (self.groups(job) if isinstance(job, GroupsJob) else self.episodes(job))


def _measure(
    member: Member, trajectories: Sequence[Trajectory], worker_s: float, noise_s: float, keep: bool
) -> MemberResult:
    kept = tuple(trajectories) if keep else ()
    broken = [t for t in trajectories if t.error is not None]
    if broken:
        return MemberResult(None, member, f"{broken[0].task_id}: {broken[0].error}", kept)
    returns = tuple((t.task_id, float(t.episode_return or 0.0)) for t in trajectories)
    return MemberResult(
        Measurement(
            member=member,
            fitness=sum(value for _, value in returns) / len(returns),
            task_returns=returns,
            episodes=len(trajectories),
            successes=sum(bool(t.success) for t in trajectories),
            generated_tokens=sum(t.generated_tokens for t in trajectories),
            worker_s=worker_s,
            policy_s=sum(turn.policy_s for t in trajectories for turn in t.turns),
            environment_s=sum(turn.environment_s for t in trajectories for turn in t.turns),
            noise_s=noise_s,
        ),
        member,
        None,
        kept,
    )


def training_tasks(run_seed: int, version: int, count: int, available: int) -> tuple[int, ...]:
    """Indices of the training tasks of one version: ``count`` without replacement, from the stream ``("tasks", version)``."""
    generator = streams.stream(run_seed, "tasks", version)
    return tuple(sorted(generator.choice(available, size=min(count, available), replace=False).tolist()))
