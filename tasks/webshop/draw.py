"""Which goal a session without a chosen one gets: drawn by weight from the stream of its seed."""

from __future__ import annotations

import numpy as np

from harness import streams
from harness.errors import RequestError
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.goals import GoalSource
from tasks.webshop.reward import Compat


def draw_goal(catalogue: Catalogue, source: GoalSource, compat: Compat, seed: int) -> int:
    """A goal's number. ``original`` is off by one as WebShop's text environment: goal 0 is never drawn, the last one takes its
    share. Raises RequestError where there is no goal."""
    weights = catalogue.goal_weights(source)
    if not len(weights):
        raise RequestError(f"the catalogue has no {source} goals; accepted: one that has")
    ends = np.cumsum(weights)
    position = streams.stream(seed, "webshop", "goal").random() * ends[-1]
    index = int(np.searchsorted(ends, position, side="right"))
    return min(index + (compat == "original"), len(weights) - 1)
