"""A shopping task: one goal of a catalogue, under one mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from harness.errors import RequestError
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.goals import SPLITS, Goal, GoalSource, split_ranges
from tasks.webshop.reward import Compat


@dataclass(frozen=True)
class WebShopTask:
    """``family`` is the goal product's category, ``difficulty`` how many option values the goal asks for, plus one."""

    task_id: str
    goal: Goal
    source: GoalSource
    compat: Compat

    @property
    def family(self) -> str:
        return self.goal.product.category

    @property
    def difficulty(self) -> int:
        return 1 + len(self.goal.options)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the goal, its product and the mode."""
        goal = self.goal
        options = list(goal.options.items()) if isinstance(goal.options, dict) else list(goal.options)
        facts = [
            self.compat,
            goal.instruction,
            goal.attributes,
            options,
            goal.price_upper,
            goal.product.to_json(),
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class TaskList(Sequence[WebShopTask]):
    """The tasks of one split, made when they are asked for. Raises RequestError for an unknown split, or a catalogue without
    goals of the source."""

    def __init__(self, catalogue: Catalogue, split: str, source: GoalSource, compat: Compat) -> None:
        if split not in SPLITS:
            raise RequestError(f"webshop suite: split {split!r}; accepted: {', '.join(SPLITS)}")
        count = catalogue.goal_count(source)
        if count < 6:
            raise RequestError(
                f"the catalogue has {count} {source} goals; accepted: at least 6, so that every split has one"
            )
        self._catalogue, self._split, self._source, self._compat = catalogue, split, source, compat
        self._goals = split_ranges(count)[split]

    def __len__(self) -> int:
        return len(self._goals)

    @overload
    def __getitem__(self, index: int) -> WebShopTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[WebShopTask]: ...
    def __getitem__(self, index: int | slice) -> WebShopTask | list[WebShopTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._task(self._goals[index], "")

    def repeated(self, index: int) -> WebShopTask:
        """Task ``index`` of an endless list that goes through the split again and again; repetitions have ids of their own."""
        again, which = divmod(index, len(self))
        return self._task(self._goals[which], f"-again{again}" if again else "")

    def _task(self, number: int, suffix: str) -> WebShopTask:
        goal = self._catalogue.goal(number, self._source, self._compat)
        return WebShopTask(f"{self._split}-{number:05d}{suffix}", goal, self._source, self._compat)
