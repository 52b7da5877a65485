"""Goals: what an episode asks for. A catalogue has synthetic goals, human ones, or both, each in a fixed shuffled order.

A synthetic goal is one combination of a product's option values, with the product's written instruction; a human goal is one
written instruction. Goals are stored as rows and become text when they are asked for.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.webshop.prices import bound_text, draw_bound
from tasks.webshop.product import Product
from tasks.webshop.reward import Compat, GoalOptions, Wish

GoalSource = Literal["synthetic", "human"]

SHUFFLE_SEED = 233
"""Of the order of the goals, in the original and here."""

ROW = np.dtype(
    [
        ("product", "<i4"),
        ("item", "<i4"),
        ("upper_original", "<f8"),
        ("upper_fixed", "<f8"),
        ("weight", "<f8"),
    ]
)
"""A goal: its product, which combination of options or which instruction of it, its bound in either mode, its weight."""


@dataclass(frozen=True, slots=True)
class GoalSeed:
    """What the rows of a product's goals are made from. ``items``: the attributes of each goal, by its number."""

    product: int
    price: float
    fixed_price: float
    draw: int
    items: Sequence[tuple[int, tuple[str, ...]]]
    one_bound: bool


@dataclass(frozen=True)
class Goal:
    """One goal, ready to be played. ``options``: by group for a synthetic one, bare values for a human one."""

    index: int
    product: Product
    instruction: str
    attributes: tuple[str, ...]
    options: GoalOptions
    price_upper: float
    weight: float

    @cached_property
    def wish(self) -> Wish:
        """What the reward needs of it."""
        p = self.product
        return Wish(
            p.title, p.query, p.product_category, self.attributes, self.options, self.price_upper, p.nouns
        )


def combinations(product: Product) -> int:
    """How many synthetic goals the product has: the combinations of its option values."""
    return (
        math.prod(len(values) for values in product.options.values())
        if product.instruction is not None
        else 0
    )


def combination(product: Product, number: int) -> dict[str, str]:
    """The ``number``-th combination: groups by name, the last group turning fastest."""
    names = sorted(product.options)
    chosen: list[str] = []
    for name in reversed(names):
        number, which = divmod(number, len(product.options[name]))
        chosen.append(product.options[name][which])
    return dict(zip(names, reversed(chosen), strict=True))


def _fixed_bound(price: float, draw: int) -> float:
    """As ``draw_bound``, from a number that belongs to the product alone."""
    return draw_bound(price, random.Random(draw))


def synthetic_rows(seeds: Iterable[GoalSeed], generator: random.Random) -> NDArray[np.void]:
    """Rows of goals in the order of the products: one bound per product for synthetic goals, one per goal for human ones.

    A synthetic goal weighs the mean, over its attributes, of one over the number of goals that ask for the attribute.
    """
    seeds = list(seeds)
    counts = Counter(attribute for seed in seeds for _, asked in seed.items for attribute in asked)
    rows: list[tuple[int, int, float, float, float]] = []
    for seed in seeds:
        original = fixed = 0.0
        for position, (number, asked) in enumerate(seed.items):
            if position == 0 or not seed.one_bound:
                original = draw_bound(seed.price, generator)
                fixed = _fixed_bound(seed.fixed_price, seed.draw + position)
            weight = sum(1.0 / counts[a] for a in asked) / len(asked) if seed.one_bound else 1.0
            rows.append((seed.product, number, original, fixed, weight))
    return np.array(rows, ROW)


def shuffled(rows: NDArray[np.void]) -> NDArray[np.void]:
    """Rows in the order in which goals are numbered."""
    order = list(range(len(rows)))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return rows[np.array(order, np.int64)]


def goal_of(row: NDArray[np.void], index: int, product: Product, source: GoalSource, compat: Compat) -> Goal:
    """The goal of a row."""
    upper = float(row["upper_original" if compat == "original" else "upper_fixed"])
    number = int(row["item"])
    options: GoalOptions
    if source == "synthetic":
        options = combination(product, number)
        text = product.instruction or ""
        if options:
            text += " with " + ", and ".join(f"{name}: {value}" for name, value in options.items())
        attributes = product.instruction_attributes
    else:
        human = product.human[number]
        options, attributes, text = human.options, human.attributes, human.text.strip(".")
    return Goal(index, product, text + bound_text(upper), attributes, options, upper, float(row["weight"]))


SPLITS = ("train", "dev", "heldout")


def split_ranges(goals: int) -> dict[str, range]:
    """Goal numbers of each split. From 3,000 goals on the fixed ones of WebShop (0-499 held out, 500-1499 dev, the rest train);
    below, a sixth held out, a sixth dev, the rest train."""
    first, second = (500, 1500) if goals >= 3000 else (goals // 6, 2 * (goals // 6))
    return {"train": range(second, goals), "dev": range(first, second), "heldout": range(first)}
