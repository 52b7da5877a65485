"""Prices: what a listing says, what a product costs, and the bound a goal sets."""

from __future__ import annotations

import random
from collections.abc import Sequence

NO_BOUND = 1_000_000.0
"""``price_upper`` of a goal whose product is too dear for a bound."""

_GRID = tuple(float(bound) for bound in range(10, 1000, 10))


def parse_pricing(raw: str | None) -> tuple[tuple[float, ...], str]:
    """``(prices, tag)`` of a listing's ``pricing``: one price or the two ends of a range, and the text that pages show.

    Nothing listed is 100 dollars. Raises ValueError where a piece after a dollar sign holds no number.
    """
    if not raw:
        return (100.0,), "$100.0"
    pieces = raw.split("$")[1:]
    if not pieces:
        raise ValueError(f"{raw!r} has no dollar sign")
    prices = tuple(float("".join(c for c in piece if c == "." or ("0" <= c <= "9"))) for piece in pieces[:2])
    return prices, f"${prices[0]}" if len(prices) == 1 else f"${prices[0]} to ${prices[1]}"


def draw_price(prices: Sequence[float], generator: random.Random) -> float:
    """What the product costs: a range is drawn from uniformly, as the original does once a process."""
    return prices[0] if len(prices) == 1 else generator.uniform(prices[0], prices[1])


def draw_bound(price: float, generator: random.Random) -> float:
    """The larger of two distinct draws among the first four multiples of 10 above ``price``; NO_BOUND when fewer than two
    are left below 1000."""
    candidates = [bound for bound in _GRID if bound > price][:4]
    return max(generator.sample(candidates, 2)) if len(candidates) >= 2 else NO_BOUND


def bound_text(bound: float) -> str:
    """What an instruction says of its bound."""
    return "" if bound >= NO_BOUND else f", and price lower than {bound:.2f} dollars"
