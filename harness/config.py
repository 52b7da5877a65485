"""The experiment file: TOML in, a validated :class:`Experiment` out, and back to TOML as resolved.

A run is a function of its experiment and of the versions in its manifest. Suites and methods bring the settings of their own
tables (``[suite]`` and ``[method]``), each a pydantic model that forbids unknown keys; everything else is here.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import registry
from harness.errors import RequestError


class Table(BaseModel):
    """Base of every table of the experiment file: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PolicyTable(Table):
    model: str = "embedded"
    """``embedded`` (the suite's own), a folder, a finished run, or a Hugging Face hub name."""
    engine: Literal["torch"] = "torch"
    """What generates the tokens."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the engine's weights; the master is always fp32."""
    device: str = "cpu"
    """A torch device."""


class WorkersTable(Table):
    kind: Literal["local"] = "local"
    """Processes of this machine."""
    count: int | None = Field(default=None, ge=1, le=4096)
    """Workers; by default one per core that this process may use."""


class EvaluationTable(Table):
    seeds: int = Field(default=3, ge=0, le=1000)
    """Sampled passes over the held-out tasks, each with a decoding seed of its own; a greedy pass is always made."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Of the sampled passes."""
    every: int = Field(default=5, ge=0)
    """Greedy pass over the fixed subset after every so many updates; 0: never."""
    subset: int = Field(default=64, ge=1)
    """Tasks of the fixed subset: the first so many of the first split, spread evenly."""
    splits: tuple[str, ...] = ("heldout",)
    """Splits evaluated before and after training."""
    before: bool = True
    """Evaluate the base policy too."""
    concurrency: int = Field(default=32, ge=1, le=4096)
    """Episodes at once in a worker (part of what makes results reproducible)."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many tasks of each split (spread evenly); for quick trials."""


class RecordTable(Table):
    trajectories: Literal["evaluation", "all", "none"] = "evaluation"
    """Which episodes are kept turn by turn."""


class Experiment(Table):
    """One run, resolved. ``suite`` and ``method`` hold the validated settings models."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str = "run"
    seed: int = Field(default=0, ge=0, lt=2**63)
    suite_name: str
    suite: Any
    method_name: str
    method: Any
    policy: PolicyTable = PolicyTable()
    workers: WorkersTable = WorkersTable()
    evaluation: EvaluationTable = EvaluationTable()
    record: RecordTable = RecordTable()

    def table(self) -> dict[str, Any]:
        """As nested plain values, in the shape of the file; None is left out (TOML has none)."""
        plain = {
            "name": self.name,
            "seed": self.seed,
            "suite": {"name": self.suite_name, **self.suite.model_dump(mode="json")},
            "method": {"name": self.method_name, **self.method.model_dump(mode="json")},
            **{part: getattr(self, part).model_dump(mode="json") for part in _PARTS},
        }
        return _without_none(plain)

    def to_toml(self) -> str:
        return tomli_w.dumps(self.table())

    def sha256(self) -> str:
        """Of everything that can change a result: not the name, the worker count, nor what is recorded."""
        table = self.table()
        for neutral in ("name", "workers", "record"):
            table.pop(neutral, None)
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


_PARTS = ("policy", "workers", "evaluation", "record")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Raises RequestError with file, and line where the syntax is broken."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RequestError(f"{path}: there is no such file; accepted: an experiment file in TOML") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{path}: not valid TOML: {error}") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``over`` on top, table by table."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def explain(error: ValidationError, source: str, table: str) -> RequestError:
    """The first problem of a validation error as a sentence: file, field, value, and what would be accepted."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in (table, *first["loc"]) if part != "")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        model = error.title
        return RequestError(
            f"{source}: {where} is not a setting ({model}); accepted: the settings that `bench list` shows"
        )
    shown = (
        ""
        if first["type"] == "missing" or ("ctx" in first and "error" in first["ctx"])
        else f" = {first['input']!r}"
    )
    return RequestError(f"{source}: {where}{shown}: {message}")


def _settings(source: str, table: str, raw: Any, default: str, load: Any) -> tuple[str, Any]:
    if not isinstance(raw, Mapping):
        raise RequestError(
            f"{source}: {table} = {raw!r}; accepted: a table with a name, such as name = {default!r}"
        )
    values = dict(raw)
    name = str(values.pop("name", default))
    try:
        cls = load(name)
    except RequestError as error:
        raise RequestError(f"{source}: {table}.name: {error}") from None
    try:
        return name, cls.Settings.model_validate(values)
    except ValidationError as error:
        raise explain(error, source, table) from None


def experiment(raw: Mapping[str, Any], source: str) -> Experiment:
    """Validate the content of an experiment file. ``source`` names it in errors. Raises RequestError."""
    values = dict(raw)
    suite_name, suite = _settings(source, "suite", values.pop("suite", {}), "terminal", registry.suite_class)
    method_name, method = _settings(
        source, "method", values.pop("method", {}), "async-es", registry.method_class
    )
    try:
        return Experiment(
            suite_name=suite_name, suite=suite, method_name=method_name, method=method, **values
        )
    except ValidationError as error:
        raise explain(error, source, "") from None
    except TypeError as error:
        raise RequestError(f"{source}: {error}") from None
