"""GRPO: groups of sampled episodes of one task, advantages over trajectories, a clipped policy gradient. Synchronous.

Each update plays ``tasks`` groups of ``samples`` episodes with the newest weights, through the rollout path of every other
method: same prompts, parser, turn limit and environments. A group is one task under one environment seed. The loss takes exactly
the tokens that the policy emitted, as they were sampled (``baselines/grpo_loss.py``); one learner in the main process makes the
next weights (``baselines/grpo_learner.py``), which reach the workers as a file.

In the log, a group is a member: member ``version * tasks + position``. Weights and optimiser of the last two versions are in
``checkpoints/``; a run that was cut plays the groups of its unfinished update again, with the same random streams.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from baselines.grpo_learner import Learner, LearnerSettings, Sample
from baselines.grpo_loss import ScaleRewards, group_advantages, token_sequences
from harness import registry, streams
from harness.cohorts import Cohorts, ControlledCohorts
from harness.errors import InfrastructureError, RequestError
from harness.interfaces import Trajectory
from harness.policies.factory import load_policy
from harness.run import Run
from harness.schedule import ControlledSchedule
from harness.workers.evaluator import GroupsJob, training_tasks
from harness.workers.local import Completed

KEPT_CHECKPOINTS = 2


class GRPOSettings(LearnerSettings):
    updates: int = Field(default=20, ge=1)
    """Updates to make."""
    tasks: int = Field(default=8, ge=1)
    """Training tasks per update, a group each."""
    samples: int = Field(default=8, ge=2)
    """Episodes per group."""
    temperature: float = Field(default=1.0, gt=0)
    """Decoding of training episodes."""
    groups_per_job: int = Field(default=4, ge=1)
    """Groups that a worker plays at once (part of what makes results reproducible)."""
    scale_rewards: ScaleRewards = "group"
    """What a return, less its group's mean, is divided by: the group's standard deviation, that of all returns, or nothing."""
    resamples: int = Field(default=0, ge=0)
    """Dynamic sampling: at most so many groups per update are drawn again, with another task, because all their returns are
    equal."""
    truncated: Literal["keep", "mask"] = "keep"
    """Episodes that the turn limit ended, or in which a reply was cut: learnt from like others, or counted in their group's
    mean with their tokens left out of the loss."""
    invalid_penalty: float = Field(default=0.0, ge=0)
    """Subtracted from the return that is learnt from, for each invalid action; fitness is recorded without it."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One group as it was played: the episodes that the infrastructure did not fail."""

    member: int
    trajectories: tuple[Trajectory, ...]

    def returns(self, penalty: float) -> list[float]:
        return [float(t.episode_return or 0.0) - penalty * _invalid(t) for t in self.trajectories]


class GRPO:
    """Groups at the newest version, a barrier, one update."""

    name: ClassVar[str] = "grpo"
    source: ClassVar[str] = "arXiv 2402.03300, with options of 2503.14476 (DAPO) and 2503.20783 (Dr. GRPO)"
    Settings: ClassVar[type] = GRPOSettings

    def __init__(self, settings: GRPOSettings) -> None:
        self.settings = settings

    @property
    def updates(self) -> int:
        return self.settings.updates

    def cohorts(self, run_seed: int) -> Cohorts:
        """Of groups: as many at every version as one update takes, none late."""
        return ControlledCohorts(ControlledSchedule(self.settings.tasks), run_seed)

    def plan(self) -> dict[str, Any]:
        s = self.settings
        groups = s.updates * s.tasks
        plan = {"updates": s.updates, "groups": groups, "episodes": groups * s.samples}
        if s.resamples:
            plan["episodes_at_most"] = plan["episodes"] + s.updates * s.resamples * s.samples
        return plan

    def train(self, run: Run) -> None:
        s = self.settings
        if s.tasks > run.train_tasks:
            raise RequestError(
                f"method.tasks = {s.tasks}: the suite has {run.train_tasks} training tasks; accepted: at most so many"
            )
        learner = _learner(run, s)
        run.evaluate_subset()
        while run.version < s.updates:
            groups, failed = _Collection(run, s).play()
            with _one_thread():
                _update(run, s, learner, groups, failed)
            run.evaluate_subset()


# -------------------------------------------------------------------------------------------------------- the learner


def _learner(run: Run, s: GRPOSettings) -> Learner:
    """At the version that the run has reached."""
    suite = registry.suite_class(run.experiment.suite_name)(run.experiment.suite)
    table = run.experiment.policy.model_copy(update={"dtype": "float32"})
    reference = load_policy(table, suite).model if s.kl > 0 else None
    agent = suite.agent()
    learner = Learner(
        load_policy(table, suite).model,
        s,
        run.experiment.seed,
        temperature=s.temperature,
        longest=agent.max_turns * agent.max_new_tokens,
        reference=reference,
    )
    if run.version:
        learner.set_weights(run.master.state())
        learner.load_optimizer(_optimizer_file(run, run.version))
    return learner


def _optimizer_file(run: Run, version: int) -> Path:
    path = run.checkpoint(version)
    return path.with_name(f"{path.stem}-optimizer.safetensors")


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread, so that sums do not depend on the machine; small models are also faster so."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------------------------- playing the groups


class _Collection:
    """The groups of one update, as they come in."""

    def __init__(self, run: Run, settings: GRPOSettings) -> None:
        self._run = run
        self._settings = settings
        self._version = run.version
        first = run.version * settings.tasks
        tasks = training_tasks(run.experiment.seed, run.version, settings.tasks, run.train_tasks)
        # A run may have been cut between the failures of an update and the update: they are not tried again.
        self._failed_before = {event["member"] for event in run.log.of("failed")}
        self._tasks = {
            first + i: task for i, task in enumerate(tasks) if first + i not in self._failed_before
        }
        self._attempts = Counter(event["member"] for event in run.log.of("dispatched"))
        self._groups: dict[int, _Group] = {}
        self._failed: dict[int, str] = {}

    def play(self) -> tuple[list[_Group], dict[int, str]]:
        """``(groups, failures)``, by member. Raises InfrastructureError where no group could be played."""
        self._round(list(self._tasks))
        spare = self._spare_tasks()
        while again := self._teach_nothing()[: len(spare)]:
            for member in again:
                self._tasks[member] = spare.pop(0)
                del self._groups[member]
            self._round(again)
        if not self._groups:
            last = next(iter(self._failed.values()), "they had failed before")
            raise InfrastructureError(
                f"none of the {self._settings.tasks} groups of version {self._version} could be played; the last: {last}; "
                f"when that is mended: bench run --resume {self._run.directory.path}"
            )
        return [self._groups[member] for member in sorted(self._groups)], self._failed

    def _spare_tasks(self) -> list[int]:
        """Tasks for groups that are drawn again; none twice in an update."""
        s, run = self._settings, self._run
        if not s.resamples:
            return []
        order = streams.stream(run.experiment.seed, "tasks", self._version, "again").permutation(
            run.train_tasks
        )
        used = set(self._tasks.values())
        return [task for task in order.tolist() if task not in used][: s.resamples]

    def _teach_nothing(self) -> list[int]:
        penalty = self._settings.invalid_penalty
        return [m for m, group in sorted(self._groups.items()) if len(set(group.returns(penalty))) == 1]

    def _round(self, members: Sequence[int]) -> None:
        """Play these groups, in jobs of fixed size, until all are there or have failed."""
        s, run = self._settings, self._run
        todo = [
            GroupsJob(
                version=self._version,
                members=tuple(some),
                task_indices=tuple(self._tasks[member] for member in some),
                samples=s.samples,
                temperature=s.temperature,
                stream_name=("train", self._version),
            )
            for some in (members[i : i + s.groups_per_job] for i in range(0, len(members), s.groups_per_job))
        ]
        while todo or run.workers.busy:
            while todo and run.workers.idle:
                job = todo.pop(0)
                worker = run.workers.submit(job)
                for member in job.members:
                    self._attempts[member] += 1
                    run.log.append(
                        "dispatched",
                        member=member,
                        version=self._version,
                        worker=worker,
                        attempt=self._attempts[member],
                    )
            for done in run.wait():
                self._enter(done)

    def _enter(self, done: Completed) -> None:
        if done.error is not None:
            self._failed.update(dict.fromkeys(done.job.members, done.error))
            return
        for member, played in zip(done.job.members, done.result.groups, strict=True):
            usable = tuple(t for t in played if t.error is None)
            if len(usable) < 2:
                broken = next(t for t in played if t.error is not None)
                self._failed[member] = f"{broken.task_id}: {broken.error}"
                continue
            self._groups[member] = _Group(member, usable)
            turns = [turn for t in played for turn in t.turns]
            self._run.log.append(
                "finished",
                member=member,
                version=self._version,
                at=self._run.version,
                fitness=float(np.mean([t.episode_return for t in usable])),
                task_returns=[[t.task_id, t.episode_return] for t in usable],
                episodes=len(played),
                successes=sum(bool(t.success) for t in usable),
                tokens=sum(t.generated_tokens for t in played),
                worker_s=round(done.result.worker_s / len(done.job.members), 6),
                policy_s=round(sum(turn.policy_s for turn in turns), 6),
                environment_s=round(sum(turn.environment_s for turn in turns), 6),
                noise_s=0.0,
            )
            if self._run.experiment.record.trajectories == "all":
                self._run.keep(self._version, played, member=member)


# ---------------------------------------------------------------------------------------------------------- the update


def _invalid(trajectory: Trajectory) -> int:
    return sum(turn.action.kind == "invalid" or turn.result.invalid for turn in trajectory.turns)


def _is_truncated(trajectory: Trajectory) -> bool:
    return trajectory.truncated or any(turn.finish == "length" for turn in trajectory.turns)


def _samples(groups: Sequence[_Group], s: GRPOSettings) -> tuple[list[Sample], tuple[bool, ...]]:
    """``(trajectories to learn from, whether each group's returns are all equal)``, in the order of the groups."""
    advantages = group_advantages([group.returns(s.invalid_penalty) for group in groups], s.scale_rewards)
    samples = [
        Sample(
            ()
            if s.truncated == "mask" and _is_truncated(trajectory)
            else tuple(token_sequences(trajectory.turns)),
            advantage,
        )
        for group, values in zip(groups, advantages.values, strict=True)
        for trajectory, advantage in zip(group.trajectories, values, strict=True)
    ]
    return samples, advantages.all_equal


def _update(
    run: Run, s: GRPOSettings, learner: Learner, groups: Sequence[_Group], failed: dict[int, str]
) -> None:
    started = time.perf_counter()
    version = run.version
    samples, all_equal = _samples(groups, s)
    learnt = learner.learn(version, samples)
    # The optimiser's file comes first: a version whose weights the log names always has both.
    target = _optimizer_file(run, version + 1)
    target.parent.mkdir(exist_ok=True)
    learner.save_optimizer(target)
    file, weights = run.publish(learner.weights())
    run.flush_trajectories()
    for member, error in sorted(failed.items()):
        run.log.append("failed", member=member, version=version, error=error)
    returns = [t.episode_return for group in groups for t in group.trajectories]
    run.log.append(
        "updated",
        version=run.version,
        cohort=[
            {
                "member": group.member,
                "version": version,
                "staleness": 0,
                "in_flight": 0,
                "in_queue": 0,
                "all_equal": equal,
            }
            for group, equal in zip(groups, all_equal, strict=True)
        ],
        late=[],
        empty=learnt["steps"] == 0,
        fitness_mean=float(np.mean(returns)),  # type: ignore[arg-type]
        fitness_std=float(np.std(returns)),  # type: ignore[arg-type]
        all_equal=sum(all_equal),
        truncated=sum(_is_truncated(t) for group in groups for t in group.trajectories),
        optimizer_steps=learner.steps,
        learner=learnt,
        update_s=round(time.perf_counter() - started, 6),
        weights_file=file,
        weights_sha256=weights,
    )
    _delete_older(run)


def _delete_older(run: Run) -> None:
    for version in range(run.version - KEPT_CHECKPOINTS, 0, -1):
        old = (run.checkpoint(version), _optimizer_file(run, version))
        if not any(path.exists() for path in old):
            return
        for path in old:
            path.unlink(missing_ok=True)
