"""A schedule in progress: what runs, what waits, what the next update consumes. Fed with events, so a log rebuilds it.

One interface for the controlled and the natural schedule, so that a learner is one loop (``baselines/es.py``). Still pure: no
clock, no process, no file; items are member ids with their birth versions. Members with antithetic partners are launched as
one unit of two; :attr:`Cohorts.unit` says how many ids one launch takes.
"""

from __future__ import annotations

from typing import Protocol

from harness import streams
from harness.schedule import ControlledSchedule, NaturalSchedule, cohort_at, staleness


class Cohorts(Protocol):
    """Ids are consecutive from 0 in the order of launching."""

    unit: int

    def may_launch(self, version: int) -> bool:
        """Whether a free worker may start another unit from ``version``."""
        ...

    def launched(self, member: int, version: int) -> None: ...
    def finished(self, member: int, version: int) -> None: ...
    def failed(self, member: int) -> None: ...

    def ready(self, version: int) -> bool:
        """Whether the update from ``version`` may fire."""
        ...

    def take(self, version: int) -> tuple[list[int], list[int]]:
        """``(cohort, dropped)`` of the update from ``version``: member ids, oldest first. Both leave the books."""
        ...

    def due(self, member: int) -> int | None:
        """Version from which a held-back member will be consumed; None for one that is not held back."""
        ...

    def waiting(self) -> list[int]:
        """Member ids that were launched and are in no cohort yet: running, queued or held."""
        ...


class ControlledCohorts:
    """See :class:`harness.schedule.ControlledSchedule`. The lags of version b come from the stream ``("lags", b)``."""

    def __init__(self, schedule: ControlledSchedule, run_seed: int) -> None:
        self.schedule = schedule
        self.unit = 2 if schedule.pair else 1
        self._seed = run_seed
        self._lags: dict[int, tuple[int, ...]] = {}
        self._launched: dict[int, int] = {}
        self._birth: dict[int, int] = {}
        self._done: set[int] = set()
        self._failed: set[int] = set()

    def lags(self, version: int) -> tuple[int, ...]:
        if version not in self._lags:
            self._lags[version] = self.schedule.lags(streams.stream(self._seed, "lags", version))
        return self._lags[version]

    def may_launch(self, version: int) -> bool:
        return self._launched.get(version, 0) < self.schedule.population

    def launched(self, member: int, version: int) -> None:
        self._launched[version] = self._launched.get(version, 0) + 1
        self._birth[member] = version

    def finished(self, member: int, version: int) -> None:
        self._done.add(member)

    def failed(self, member: int) -> None:
        self._failed.add(member)

    def ready(self, version: int) -> bool:
        first = version * self.schedule.population
        ids = range(first, first + self.schedule.population)
        return all(member in self._done or member in self._failed for member in ids)

    def take(self, version: int) -> tuple[list[int], list[int]]:
        due = cohort_at(version, {birth: self.lags(birth) for birth in self._launched})
        ids = [birth * self.schedule.population + position for birth, position in due]
        cohort = [member for member in ids if member in self._done]
        for member in ids:
            self._birth.pop(member, None)
        return cohort, []

    def due(self, member: int) -> int | None:
        birth, position = divmod(member, self.schedule.population)
        lag = self.lags(birth)[position]
        return birth + lag if lag else None

    def waiting(self) -> list[int]:
        return sorted(member for member in self._birth if member not in self._failed)


class NaturalCohorts:
    """See :class:`harness.schedule.NaturalSchedule`."""

    def __init__(self, schedule: NaturalSchedule) -> None:
        self.schedule = schedule
        self.unit = 2 if schedule.pair else 1
        self._running: dict[int, int] = {}
        self._queue: dict[int, int] = {}

    def may_launch(self, version: int) -> bool:
        return self.schedule.may_admit(len(self._running), len(self._queue))

    def launched(self, member: int, version: int) -> None:
        self._running[member] = version

    def finished(self, member: int, version: int) -> None:
        self._queue[member] = self._running.pop(member)

    def failed(self, member: int) -> None:
        del self._running[member]

    def ready(self, version: int) -> bool:
        usable = [birth for birth in self._queue.values() if not self.schedule.is_late(version, birth)]
        return self.schedule.may_update(version, usable, list(self._running.values()))

    def take(self, version: int) -> tuple[list[int], list[int]]:
        queue = [(birth, member) for member, birth in self._queue.items()]
        cohort, dropped = self.schedule.take(version, queue)
        for _, member in (*cohort, *dropped):
            del self._queue[member]
        return [member for _, member in cohort], [member for _, member in dropped]

    def due(self, member: int) -> int | None:
        return None

    def waiting(self) -> list[int]:
        return sorted({*self._running, *self._queue})


def split_staleness(update_from: int, birth: int, finished_at: int) -> tuple[int, int, int]:
    """``(staleness, in flight, in queue)``: versions that passed in all, while it was evaluated, and while it waited.

    ``finished_at`` is the version that was current when the evaluation finished. For a controlled schedule, evaluation is
    instantaneous (in flight 0) and the imposed lag is time in the queue.
    """
    total = staleness(update_from, birth)
    in_flight = finished_at - birth
    return total, in_flight, total - in_flight
