"""Suites, methods and further commands, found through entry points: this repository's and any installed package's alike."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.errors import RequestError

SUITES = "bench.suites"
METHODS = "bench.methods"
COMMANDS = "bench.commands"


def available(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name, sorted."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def _load(group: str, kind: str, name: str) -> Any:
    points = available(group)
    if name not in points:
        raise RequestError(
            f"{kind} {name!r} is not known; accepted: {', '.join(points) or 'none is installed'}"
        )
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise RequestError(f"{kind} {name!r} ({points[name].value}) cannot be loaded: {error}") from error


def suite_class(name: str) -> Any:
    """The class of a suite (see ``harness.interfaces.Suite``)."""
    return _load(SUITES, "suite", name)


def method_class(name: str) -> Any:
    """The class of a method (see ``harness.run.Method``)."""
    return _load(METHODS, "method", name)


def command_app(name: str) -> Any:
    """The typer app that ``bench NAME`` runs."""
    return _load(COMMANDS, "command", name)
