"""From the ``[policy]`` table to a loaded engine."""

from __future__ import annotations

from pathlib import Path

from harness.config import PolicyTable
from harness.errors import RequestError
from harness.interfaces import Suite
from harness.policies.master import MasterWeights
from harness.policies.torch_policy import TorchPolicy
from harness.rundir import RunDirectory


def model_source(table: PolicyTable, suite: Suite) -> str | Path:
    """Folder or hub name of the weights (of a run's base). Raises RequestError for a folder that is none of these."""
    if table.model == "embedded":
        folder = suite.policy_dir()
        if not (folder / "config.json").is_file():
            raise RequestError(
                f"policy.model = 'embedded': suite {suite.name!r} has none in {folder}; accepted: another model, or first: "
                f"bench warm-start --suite {suite.name}"
            )
        return folder
    path = Path(table.model)
    if path.is_dir():
        run = _finished_run(path)
        if run is not None:
            return model_source(run.experiment().policy, suite)
        if not (path / "config.json").is_file():
            raise RequestError(
                f"policy.model = {table.model!r}: the folder has no config.json; accepted: a Hugging Face "
                "model folder, or a finished run"
            )
        return path
    if path.is_absolute() or table.model.startswith(".") or table.model.count("/") != 1:
        raise RequestError(
            f"policy.model = {table.model!r}: there is no such folder; accepted: 'embedded', a Hugging Face model folder, "
            "or a hub name such as Qwen/Qwen2.5-7B-Instruct"
        )
    return table.model


def _finished_run(path: Path) -> RunDirectory | None:
    run = RunDirectory(path)
    if not run.config.is_file():
        return None
    if not run.final.is_file():
        raise RequestError(
            f"{path}: this run has no {run.final.name} yet; accepted: a finished run (bench run --resume {path})"
        )
    return run


def load_policy(table: PolicyTable, suite: Suite) -> TorchPolicy:
    """The engine, with the weights of the ``[policy]`` table: a model's own, or a finished run's final ones."""
    policy = TorchPolicy(model_source(table, suite), dtype=table.dtype, device=table.device)
    path = Path(table.model)
    run = _finished_run(path) if table.model != "embedded" and path.is_dir() else None
    if run is not None:
        MasterWeights(policy.named_parameters(), run_seed=0).load(run.final)
        policy.weights_changed()
    return policy
