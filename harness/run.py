"""One run from beginning to end: directory, workers, evaluation before, training by the method, evaluation after.

A method (entry-point group ``bench.methods``) gets a :class:`Run` and drives it; everything that happens goes through the
event log, so that a run that was killed at any point goes on from its log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from safetensors.torch import save

from harness import evaluation, files, registry
from harness.cohorts import Cohorts
from harness.config import Experiment
from harness.errors import BenchError, RequestError
from harness.events import Event, EventLog
from harness.interfaces import Suite, Trajectory, UpdateTerm
from harness.manifest import manifest
from harness.policies.factory import load_policy, model_source
from harness.policies.master import MasterWeights
from harness.rundir import RunDirectory, trajectory_record
from harness.workers.evaluator import Update, WeightsFile, bring_forward
from harness.workers.local import Completed, LocalWorkers, start_fork_server

HASH_EVERY_UPDATE_BELOW = 50_000_000
"""Parameters up to which the weights are hashed at every update (it costs about a second per billion bytes)."""


class Method(Protocol):
    """A method, constructed as ``cls(settings)`` with an instance of ``cls.Settings`` (a pydantic model)."""

    name: ClassVar[str]
    Settings: ClassVar[type]

    @property
    def updates(self) -> int: ...

    def cohorts(self, run_seed: int) -> Cohorts:
        """The schedule asked for, unstarted; an audit rebuilds from it what should have happened."""
        ...

    def plan(self) -> dict[str, Any]:
        """What training will take: ``episodes`` and whatever else the settings determine."""
        ...

    def train(self, run: Run) -> None: ...


class Run:
    """What a method works with. ``version`` counts the updates applied so far."""

    def __init__(
        self,
        directory: RunDirectory,
        experiment: Experiment,
        log: EventLog,
        workers: LocalWorkers,
        master: MasterWeights,
        suite: Suite,
        advance: Callable[[int], None],
    ) -> None:
        self.directory = directory
        self.experiment = experiment
        self.log = log
        self.workers = workers
        self.master = master
        self.train_tasks = len(suite.tasks("train"))
        self.version = 0
        self._suite = suite
        self._advance = advance
        self._stash: deque[Completed] = deque()
        self._kept: dict[int, list[dict[str, Any]]] = {}

    def wait(self) -> list[Completed]:
        """Training jobs that ended since the last call; blocks until there is one."""
        if self._stash:
            done, self._stash = list(self._stash), deque()
            return done
        return self.workers.wait()

    def restore(self, updates: Sequence[Update | WeightsFile]) -> None:
        """Apply the updates that a resumed log holds (the workers were started with them)."""
        bring_forward(self.master, updates)
        self.version += len(updates)

    def update(self, terms: Sequence[UpdateTerm], alpha: float) -> str | None:
        """Make the next version, here and in every worker; the hash of its weights, for models where that is cheap."""
        update = Update(tuple(terms), alpha)
        self.workers.publish(update)
        self.master.update(update.terms, alpha)
        self.version += 1
        return self._sha256()

    def publish(self, weights: Mapping[str, torch.Tensor]) -> tuple[str, str | None]:
        """Make the next version from whole weights, for a method whose updates are not noise: written as a file, taken over here
        and in every worker. Returns the file, relative to the run directory, to be named as ``weights_file`` in the ``updated``
        event; and the hash as :meth:`update` does. Files before the last two are the method's to delete."""
        path = self.checkpoint(self.version + 1)
        path.parent.mkdir(exist_ok=True)
        files.write_bytes(
            path, save({name: w.detach().float().cpu().contiguous() for name, w in weights.items()})
        )
        self.workers.publish(WeightsFile(str(path.resolve())))
        self.master.load(path)
        self.version += 1
        return str(path.relative_to(self.directory.path)), self._sha256()

    def checkpoint(self, version: int) -> Path:
        """Where :meth:`publish` writes a version."""
        return self.directory.path / "checkpoints" / f"v{version:06d}.safetensors"

    def _sha256(self) -> str | None:
        small = self.master.parameter_count <= HASH_EVERY_UPDATE_BELOW
        return self.master.sha256() if small else None

    def keep(self, version: int, trajectories: Sequence[Trajectory], **labels: Any) -> None:
        """Remember training episodes until the update that :meth:`flush_trajectories` writes them with."""
        records = [
            trajectory_record(trajectory, version=version, split="train", **labels)
            for trajectory in trajectories
        ]
        self._kept.setdefault(version, []).extend(records)

    def flush_trajectories(self) -> None:
        for version, kept in sorted(self._kept.items()):
            name = f"train-v{version:06d}-{self.version:06d}.jsonl.gz"
            self.directory.write_trajectories(name, kept)
        self._kept = {}

    def evaluate_subset(self) -> None:
        """The greedy pass over the fixed subset, if it is due at this version and not in the log yet."""
        table = self.experiment.evaluation
        last = self.version == 0 or table.every == 0 or self.version % table.every
        if last or not table.splits:
            return
        split = table.splits[0]
        indices = evaluation.spread(len(self._suite.tasks(split)), table.subset)
        self._evaluate(split, indices, [evaluation.Pass(split, None)], "-subset")

    def evaluate_fully(self) -> None:
        """Greedy and sampled passes over every split, if not in the log yet."""
        table = self.experiment.evaluation
        for split in table.splits:
            indices = evaluation.spread(len(self._suite.tasks(split)), table.limit)
            self._evaluate(split, indices, evaluation.passes(table, split), "")

    def _evaluate(
        self, split: str, indices: Sequence[int], wanted: Sequence[evaluation.Pass], label: str
    ) -> None:
        name = f"v{self.version:06d}-{split}{label}"
        file = f"{name}.jsonl"
        if any(event["file"] == file for event in self.log.of("evaluated")):
            return
        table = self.experiment.evaluation
        plan = [(p, job) for p in wanted for job in evaluation.jobs(table, self.version, p, indices)]
        played = evaluation.play(self.workers, plan, elsewhere=self._stash.append, advance=self._advance)
        rows = [evaluation.row(t, which) for which, trajectories in played for t in trajectories]
        self.directory.write_rows(file, rows)
        if self.experiment.record.trajectories != "none":
            self.directory.write_trajectories(f"{name}.jsonl.gz", evaluation.records(played, self.version))
        trajectories = [t for _, ts in played for t in ts]
        turns = [turn for t in trajectories for turn in t.turns]
        self.log.append(
            "evaluated",
            version=self.version,
            split=split,
            file=file,
            rows=len(rows),
            success={
                decoding: _mean([row["success"] for row in rows if row["decoding"] == decoding])
                for decoding in sorted({p.decoding for p in wanted})
            },
            episodes=len(rows),
            tokens=sum(row["tokens"] for row in rows),
            policy_s=round(sum(turn.policy_s for turn in turns), 6),
            environment_s=round(sum(turn.environment_s for turn in turns), 6),
        )


def _mean(values: Sequence[bool | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def updates_of(log: Sequence[Event]) -> list[Update]:
    """The seed log: the update of each version, from ``updated`` events. Raises RequestError where one came as a file."""
    updates = [_update(event) for event in log if event["kind"] == "updated" and "weights_file" not in event]
    if len(updates) != sum(event["kind"] == "updated" for event in log):
        raise RequestError(
            "this run's updates are files of weights, of which the last two are kept: there is no seed log to rebuild them from; "
            "accepted: a run of an ES method"
        )
    return updates


def versions_of(log: Sequence[Event], directory: RunDirectory) -> list[Update | WeightsFile]:
    """How each version is made from the one before: by the seed log, or from the file that its ``updated`` event names."""
    return [
        WeightsFile(str((directory.path / event["weights_file"]).resolve()))
        if "weights_file" in event
        else _update(event)
        for event in log
        if event["kind"] == "updated"
    ]


def _update(event: Event) -> Update:
    return Update(
        tuple(UpdateTerm(entry["noise"], entry["sign"], entry["coefficient"]) for entry in event["cohort"]),
        event["alpha"],
    )


def totals(log: Sequence[Event]) -> dict[str, Any]:
    """What a run has cost so far, from its log: training episodes, generated tokens, worker-seconds and their shares."""
    done = [event for event in log if event["kind"] == "finished"]
    updates = [event for event in log if event["kind"] == "updated"]
    return {
        "updates": len(updates),
        "episodes": sum(event["episodes"] for event in done),
        "tokens": sum(event["tokens"] for event in done),
        "worker_s": round(sum(event["worker_s"] for event in done), 3),
        "policy_s": round(sum(event["policy_s"] for event in done), 3),
        "environment_s": round(sum(event["environment_s"] for event in done), 3),
        "noise_s": round(sum(event["noise_s"] for event in done), 3),
        "update_s": round(sum(event["update_s"] for event in updates), 3),
    }


Listener = Callable[[Event], None]


def _silent(event: Event) -> None:
    return None


def _no_advance(episodes: int) -> None:
    return None


def start(
    experiment: Experiment,
    out: Path,
    command: list[str],
    *,
    listen: Listener = _silent,
    advance: Callable[[int], None] = _no_advance,
) -> RunDirectory:
    """Make ``out`` and run the experiment in it. Raises RequestError with nothing left behind, or another BenchError with a
    directory that :func:`resume` continues."""
    RunDirectory.check_unused(out)
    suite: Suite = registry.suite_class(experiment.suite_name)(experiment.suite)
    source = model_source(experiment.policy, suite)
    start_fork_server()
    facts = manifest(
        experiment.sha256(),
        experiment.seed,
        suite.manifest(),
        source,
        command,
    )
    load_policy(experiment.policy, suite)
    directory = RunDirectory.create(out, experiment, facts)
    directory.lock()
    try:
        _execute(directory, experiment, suite, listen, advance)
    except BenchError:
        if not directory.events.exists() or directory.events.stat().st_size == 0:
            directory.remove()
        raise
    finally:
        directory.unlock()
    return directory


def resume(
    path: Path, *, listen: Listener = _silent, advance: Callable[[int], None] = _no_advance
) -> RunDirectory:
    """Continue a run from its log. A finished run is left as it is."""
    directory = RunDirectory.existing(path)
    experiment = directory.experiment()
    start_fork_server()
    suite: Suite = registry.suite_class(experiment.suite_name)(experiment.suite)
    directory.lock()
    try:
        recorded = directory.read_manifest()
        if recorded["suite"].get("sha256") != suite.manifest().get("sha256"):
            raise RequestError(
                f"{directory.manifest}: the tasks of suite {experiment.suite_name!r} have changed since this run began; "
                "accepted: the version of the suite that the manifest names"
            )
        _execute(directory, experiment, suite, listen, advance)
    finally:
        directory.unlock()
    return directory


def _execute(
    directory: RunDirectory,
    experiment: Experiment,
    suite: Suite,
    listen: Listener,
    advance: Callable[[int], None],
) -> None:
    log = EventLog(directory.events, listen=listen)
    try:
        if any(log.of("run_finished")):
            return
        policy = load_policy(experiment.policy, suite)
        master = MasterWeights(policy.named_parameters(), experiment.seed)
        base = master.sha256()
        method: Method = registry.method_class(experiment.method_name)(experiment.method)
        updates = versions_of(log.events, directory)
        if log.events:
            recorded = log.events[0]["base_sha256"]
            if recorded != base:
                raise RequestError(
                    f"{directory.events}: the run began from weights {recorded[:12]}, but policy.model = "
                    f"{experiment.policy.model!r} now has {base[:12]}; accepted: the same weights"
                )
        with LocalWorkers(experiment, updates) as workers:
            workers.wait_until_ready()
            if log.events:
                log.append("resumed", dropped_bytes=log.dropped_bytes)
            else:
                log.append(
                    "run_started",
                    config_sha256=experiment.sha256(),
                    base_sha256=base,
                    seed=experiment.seed,
                    updates=method.updates,
                    workers=workers.count,
                )
            run = Run(directory, experiment, log, workers, master, suite, advance)
            run.restore(updates)
            if experiment.evaluation.before and run.version == 0:
                run.evaluate_fully()
            method.train(run)
            run.evaluate_fully()
            master.save(directory.final)
            log.append(
                "run_finished", version=run.version, weights_sha256=master.sha256(), totals=totals(log.events)
            )
    finally:
        log.close()
