"""The event log of a run: ``events.jsonl``, append-only. It is the truth about the run, and its checkpoint.

One JSON object a line: ``n`` (running number), ``t`` (seconds since the epoch), ``kind``, and by kind:

=================  =====================================================================================================
run_started        config_sha256, base_sha256, seed, updates
dispatched         member, version (birth), noise, sign, worker, attempt
finished           member, version, at (the version when it finished), fitness, task_returns, episodes, successes, tokens,
                   worker_s, policy_s, environment_s, noise_s
failed             member, version, error
held               member, version, due (the version from which it will be consumed)
dropped            member, version, reason (``end``: still running, queued or held when the run ended)
updated            version (the version that the update made), alpha, cohort, late, empty, fitness_mean, fitness_std,
                   update_s, weights_sha256. ``cohort``: one object per measurement: member, version, noise, sign,
                   staleness, in_flight, in_queue, advantage, coefficient. ``late``: [member, version] of the measurements
                   that were dropped because they are over the bound. A gradient method (GRPO) writes weights_file,
                   optimizer_steps, all_equal, truncated and learner in the place of alpha, and no noise, sign, advantage
                   and coefficient (nor noise and sign of ``dispatched``)
evaluated          version, split, file, rows, success (by decoding), episodes, tokens, policy_s, environment_s
resumed            dropped_bytes
run_finished       version, weights_sha256, totals
=================  =====================================================================================================

Every event is handed to the system as it is written; ``updated``, ``evaluated`` and ``run_finished`` are synced to the disk. A crash can
leave at most one cut line at the end; opening the log for writing removes it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError, RequestError

Event = dict[str, Any]

SYNCED = frozenset({"run_started", "updated", "evaluated", "run_finished"})
FILE = "events.jsonl"


def read_events(path: Path) -> list[Event]:
    """All whole events. A cut last line is left out; a broken line before it raises RequestError."""
    events, _ = _read(path)
    return events


def _read(path: Path) -> tuple[list[Event], int]:
    """Events, and the byte length of the whole lines."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequestError(
            f"{path}: cannot be read ({error.strerror}); accepted: the event log of a run"
        ) from error
    events: list[Event] = []
    good = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            event = json.loads(line)
            if not isinstance(event, dict) or event.get("n") != len(events):
                raise ValueError(f"expected event number {len(events)}")
        except ValueError as error:
            if number == len(lines) - 1:
                break
            raise RequestError(f"{path}: line {number} is damaged: {error}") from error
        events.append(event)
        good += len(line) + 1
    return events, good


class EventLog:
    """Appends to the log of one run. ``listen`` is called with every event, after it is written."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        listen: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._listen = listen
        self.events: list[Event] = []
        self.dropped_bytes = 0
        if path.exists():
            self.events, good = _read(path)
            self.dropped_bytes = path.stat().st_size - good
            if self.dropped_bytes:
                os.truncate(path, good)
        # Unbuffered: what a full disk refuses must not be tried again when the file is closed.
        self._file = path.open("ab", buffering=0)

    def append(self, kind: str, **fields: Any) -> Event:
        """Write one event. Raises InfrastructureError when the disk refuses; what was written before stays whole."""
        event: Event = {"n": len(self.events), "t": round(self._clock(), 6), "kind": kind, **fields}
        line = json.dumps(event, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            if kind in SYNCED:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise InfrastructureError(
                f"{self.path}: cannot be written ({error.strerror}); free some space, then: bench run --resume "
                f"{self.path.parent}"
            ) from error
        self.events.append(event)
        self._listen(event)
        return event

    def of(self, *kinds: str) -> Iterator[Event]:
        return (event for event in self.events if event["kind"] in kinds)

    def close(self) -> None:
        self._file.close()
