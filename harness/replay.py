"""Rebuilds the weights of a run from its base and its seed log, and compares hashes with what the run recorded."""

from __future__ import annotations

from dataclasses import dataclass

from harness import registry
from harness.interfaces import Suite
from harness.policies.factory import load_policy
from harness.policies.master import MasterWeights
from harness.run import updates_of
from harness.rundir import RunDirectory


@dataclass(frozen=True)
class Replay:
    """``mismatch`` is the first version whose hash differs from the recorded one (None: all agree)."""

    version: int
    weights_sha256: str
    checked: int
    mismatch: int | None


def replay(directory: RunDirectory) -> tuple[Replay, MasterWeights]:
    """Base + log. Checks the base (version 0) and every version whose hash the log holds."""
    experiment = directory.experiment()
    suite: Suite = registry.suite_class(experiment.suite_name)(experiment.suite)
    policy = load_policy(experiment.policy, suite)
    master = MasterWeights(policy.named_parameters(), experiment.seed)
    log = directory.read_events()
    recorded: dict[int, str] = {}
    for event in log:
        if event["kind"] == "run_started":
            recorded[0] = event["base_sha256"]
        elif event["kind"] in ("updated", "run_finished") and event["weights_sha256"]:
            recorded[event["version"]] = event["weights_sha256"]
    mismatch = None
    version = 0
    for update in [None, *updates_of(log)]:
        if update is not None:
            master.update(update.terms, update.alpha)
            version += 1
        if mismatch is None and version in recorded and recorded[version] != master.sha256():
            mismatch = version
    return Replay(version, master.sha256(), len(recorded), mismatch), master
