"""What a person sees of a run in progress: a live line on a terminal, plain lines in a log file. Fed by the event log."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from harness.events import Event


class RunProgress:
    """Listens to events (``harness.events.EventLog``). Use as a context manager."""

    def __init__(self, console: Console, updates: int, title: str) -> None:
        """``title`` is said when the run begins or goes on."""
        self._console = console
        self._title = title
        self._updates = updates
        self._members = 0
        self._episodes = 0
        self._started = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("updates", total=updates, note="")

    def __enter__(self) -> RunProgress:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def advance(self, episodes: int) -> None:
        """Evaluation episodes that ended."""
        self._episodes += episodes
        self._progress.update(self._bar, note=f"evaluated {self._episodes} episodes")

    def __call__(self, event: Event) -> None:
        kind = event["kind"]
        if kind in ("run_started", "resumed"):
            self._say(self._title if kind == "run_started" else f"{self._title}, resumed from its event log")
        elif kind == "finished":
            self._members += 1
            self._episodes += event["episodes"]
            self._progress.update(self._bar, note=f"{self._members} members, {self._episodes} episodes")
        elif kind == "updated":
            self._progress.update(self._bar, completed=event["version"])
            mean = event["fitness_mean"]
            ages = [entry["staleness"] for entry in event["cohort"]]
            stale = f", staleness up to {max(ages)}" if ages and max(ages) else ""
            fitness = (
                "no measurement due" if mean is None else f"fitness {mean:.3f} ± {event['fitness_std']:.3f}"
            )
            self._say(
                f"update {event['version']:>3}/{self._updates}: {fitness} ({len(ages)} measurements{stale})"
            )
        elif kind == "evaluated":
            shares = ", ".join(
                f"{name} {100 * value:.1f} %" for name, value in event["success"].items() if value is not None
            )
            label = event["file"].removesuffix(".jsonl")
            self._say(f"[bold]held-out {label}[/bold]: {shares} ({event['rows']} episodes)")
        elif kind == "failed":
            self._say(f"[red]member {event['member']} failed: {event['error']}[/red]")

    def _say(self, text: str) -> None:
        elapsed = time.monotonic() - self._started
        self._console.print(f"[dim]{elapsed:6.1f} s[/dim]  {text}", highlight=False, soft_wrap=True)
