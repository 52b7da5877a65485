"""From the ``[policy]`` table to a loaded engine."""

from __future__ import annotations

from pathlib import Path

from harness.config import PolicyTable
from harness.errors import RequestError
from harness.interfaces import Suite
from harness.policies.torch_policy import TorchPolicy


def model_source(table: PolicyTable, suite: Suite) -> str | Path:
    """Folder or hub name of the base weights. Raises RequestError for a folder that is none."""
    if table.model == "embedded":
        return suite.policy_dir()
    path = Path(table.model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise RequestError(f"policy.model = {table.model!r}: the folder has no config.json; accepted: a Hugging Face model folder")
        return path
    if path.is_absolute() or table.model.startswith(".") or table.model.count("/") != 1:
        raise RequestError(
            f"policy.model = {table.model!r}: there is no such folder; accepted: 'embedded', a Hugging Face model folder, "
            "or a hub name such as Qwen/Qwen2.5-7B-Instruct"
        )
    return table.model


def load_policy(table: PolicyTable, suite: Suite) -> TorchPolicy:
    return TorchPolicy(model_source(table, suite), dtype=table.dtype, device=table.device)
