"""Which measurement enters which update: admission, cohorts, delays. Pure: no clock, no file, no process.

Words (see also ``docs/method.md``). An update that starts from version ``v`` makes ``v + 1``. A measurement of a member born
at version ``b`` that this update consumes has staleness ``v - b``; :func:`staleness` is the one place that says so.

========================  =====================================================================================
S = 0                     a member born at b is consumed by the update that starts from b: synchronous ES
natural, bound S          never consumed by an update that starts from a version above b + S
controlled, lag d         consumed by exactly the update that starts from b + d
========================  =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Late = Literal["wait", "drop"]
LagLaw = Literal["constant", "uniform", "geometric"]


def staleness(update_from: int, birth: int) -> int:
    """Staleness of a measurement born at ``birth`` in the update from ``update_from`` to ``update_from + 1``. Fresh is 0.

    >>> [staleness(v, 3) for v in (3, 4, 7)]
    [0, 1, 4]
    """
    if update_from < birth:
        raise ValueError(f"an update from version {update_from} cannot consume a member of version {birth}")
    return update_from - birth


# --------------------------------------------------------------------------------------------- controlled schedule


@dataclass(frozen=True, slots=True)
class ControlledSchedule:
    """Asynchrony imposed on purpose: at every version ``population`` members are evaluated, and
    ``round(fraction * population)`` of them enter the cohort of ``version + lag`` instead of this one.

    delay: the lag (``constant``), its maximum (``uniform`` over 0..delay), or its mean (``geometric``, truncated at
    ``truncation``). pair: members ``2k`` and ``2k + 1`` of a version are antithetic partners; they are held together.
    ``delay = 0`` or ``fraction = 0`` is synchronous ES.
    """

    population: int
    delay: int = 0
    fraction: float = 0.0
    law: LagLaw = "constant"
    truncation: int = 0
    pair: bool = False

    def held_count(self) -> int:
        """Members held back at each version: ``round(fraction * population)``, half to even; whole pairs when ``pair``."""
        if self.pair:
            return 2 * round(self.fraction * (self.population // 2))
        return round(self.fraction * self.population)

    def lags(self, generator: np.random.Generator) -> tuple[int, ...]:
        """Lag of each member of one version, by position. 0: it enters this version's cohort."""
        lags = [0] * self.population
        group = 2 if self.pair else 1
        groups = self.population // group
        held = sorted(generator.permutation(groups)[: self.held_count() // group].tolist())
        for index in held:
            lag = self._draw(generator)
            for position in range(index * group, (index + 1) * group):
                lags[position] = lag
        return tuple(lags)

    def _draw(self, generator: np.random.Generator) -> int:
        if self.delay == 0:
            return 0
        if self.law == "constant":
            return self.delay
        if self.law == "uniform":
            return int(generator.integers(0, self.delay, endpoint=True))
        # Geometric on 0, 1, 2, ... with mean `delay` before truncation: success probability 1 / (delay + 1).
        return min(int(generator.geometric(1.0 / (self.delay + 1.0))) - 1, self.truncation)

    def maximum_staleness(self) -> int:
        if self.held_count() == 0 or self.delay == 0:
            return 0
        return self.truncation if self.law == "geometric" else self.delay


def cohort_at(version: int, lags: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """The cohort of the update from ``version``: ``(birth version, position)``, oldest first.

    ``lags[b]`` are the lags of the members born at ``b``. During the first versions only what has fallen due is there.
    """
    return [
        (birth, position)
        for birth in sorted(lags)
        if birth <= version
        for position, lag in enumerate(lags[birth])
        if birth + lag == version
    ]


# ------------------------------------------------------------------------------------------------ natural asynchrony


@dataclass(frozen=True, slots=True)
class NaturalSchedule:
    """Bounded staleness under natural asynchrony: workers start members from the newest version whenever they are free.

    population: measurements per update, N. max_staleness: the bound S. late: what happens to a straggler (see
    :meth:`may_update`). pair: antithetic partners are admitted and consumed together, and counted as two.
    """

    population: int
    max_staleness: int
    late: Late = "wait"
    pair: bool = False

    def may_admit(self, in_flight: int, queued: int) -> bool:
        """Admission control: ``in_flight + queued < N * (S + 1)``.

        If everything finished in order, this alone would keep the bound: a member admitted behind m others is consumed
        floor(m / N) <= S updates later.
        """
        return in_flight + queued < self.population * (self.max_staleness + 1)

    def may_update(self, version: int, queued: Sequence[int], running: Sequence[int]) -> bool:
        """Whether the update from ``version`` may fire, given the births of what is queued and of what is running.

        Needs N queued measurements. With ``late = "drop"`` that is enough. With ``late = "wait"`` everything left must
        still be consumable in time: for every k >= 0, at most N * k of the members left after the update may have
        ``birth + S <= version + k`` (each of the k updates from version + 1 .. version + k consumes N). For k = 0 this is
        the stale-synchronous rule (no running member may end up older than S); the rest keeps two stragglers of one
        version from falling due at the same update when N is 1. It never blocks once all running members have finished.
        """
        if len(queued) < self.population:
            return False
        if self.late == "drop":
            return True
        due = sorted(birth + self.max_staleness for birth in (*sorted(queued)[self.population :], *running))
        return all(rank < self.population * (deadline - version) for rank, deadline in enumerate(due))

    def is_late(self, version: int, birth: int) -> bool:
        """Whether a measurement can no longer be consumed by an update from ``version``."""
        return staleness(version, birth) > self.max_staleness

    def take(
        self, version: int, queue: Sequence[tuple[int, int]]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """``(cohort, dropped)`` from a queue of ``(birth, member id)``: oldest first, by birth and then member id.

        Nothing is dropped with ``late = "wait"``: the bound then holds by :meth:`may_update`.
        """
        dropped = [item for item in queue if self.is_late(version, item[0])]
        usable = sorted(item for item in queue if not self.is_late(version, item[0]))
        return usable[: self.population], dropped


# ---------------------------------------------------------------------------------------------------- from fitness to update

Shaping = Literal["zscore", "centered_rank"]
Scope = Literal["cohort", "version", "task"]


def zscores(values: Sequence[float]) -> list[float]:
    """(F - mean) / (std + 1e-8), population standard deviation (ddof 0); all zero where the spread is zero."""
    array = np.asarray(values, np.float64)
    spread = array.std()
    if spread == 0.0:
        return [0.0] * len(array)
    return [float(x) for x in (array - array.mean()) / (spread + 1e-8)]


def centered_ranks(values: Sequence[float]) -> list[float]:
    """Ranks scaled to [-1/2, 1/2], ties at their mean rank; all zero where all are equal or there is one value."""
    from scipy.stats import rankdata

    if len(values) < 2:
        return [0.0] * len(values)
    return [float(x) for x in (rankdata(values) - 1.0) / (len(values) - 1.0) - 0.5]


def advantages(
    fitness: Sequence[float],
    births: Sequence[int],
    task_returns: Sequence[Sequence[tuple[str, float]]],
    shaping: Shaping = "zscore",
    scope: Scope = "cohort",
) -> list[float]:
    """Advantage ``A_i`` of each measurement of a cohort.

    scope: over what fitness is normalised. ``cohort``: pooled. ``version``: within each birth version present.
    ``task``: each task's mean over the cohort is subtracted from its returns before a member's are averaged, then pooled.
    """
    shape = zscores if shaping == "zscore" else centered_ranks
    if scope == "cohort":
        return shape(fitness)
    if scope == "task":
        sums: dict[str, list[float]] = {}
        for returns in task_returns:
            for task, value in returns:
                sums.setdefault(task, []).append(value)
        means = {task: math.fsum(values) / len(values) for task, values in sums.items()}
        return shape([math.fsum(v - means[t] for t, v in returns) / len(returns) for returns in task_returns])
    result = [0.0] * len(fitness)
    for birth in sorted(set(births)):
        members = [i for i, b in enumerate(births) if b == birth]
        for i, value in zip(members, shape([fitness[i] for i in members]), strict=True):
            result[i] = value
    return result
