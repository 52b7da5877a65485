"""The reward of a purchase: type x (attributes + options + price) over what the goal asks for. Success is a reward of 1.

``compat="original"`` computes what WebShop's ``engine/goal.py`` does, its traps included. ``compat="fixed"`` mends them:

- options: a value counts when it is the same value (case, spaces and ``/`` against `` | `` aside), in the same group where the
  goal names one, and one purchased value satisfies one wish. The original takes large for x-large and navy for midnight blue.
- attributes: an attribute counts when the product lists it, or a text says it as whole words, whatever the case. The original
  takes sets of words that contain one another for equal, and finds words within words.
- type: the title's nouns are compared as sets, and a matching query or category is not overruled by an unlike title.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from rapidfuzz import fuzz
from rapidfuzz import utils as fuzz_utils

from harness.errors import RequestError
from tasks.webshop.colours import COLOURS, normalize_colour
from tasks.webshop.product import Product

Compat = Literal["original", "fixed"]
GoalOptions = Mapping[str, str] | Sequence[str]
"""Synthetic goals name the group of each value, human ones do not."""

_LATIN = dict.fromkeys(range(0x80, 0x100))


@dataclass(frozen=True, slots=True)
class Wish:
    """What a goal asks for, as far as the reward sees it. ``nouns``: of the goal product's name.

    Raises RequestError for a wish that has no reward: without attributes, or with a bound of 0 or less.
    """

    name: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    options: GoalOptions
    price_upper: float
    nouns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise RequestError(f"goal {self.name!r}: attributes is empty; accepted: at least one")
        if not self.price_upper > 0:
            raise RequestError(f"goal {self.name!r}: price_upper = {self.price_upper}; accepted: more than 0")


@dataclass(frozen=True, slots=True)
class Reward:
    """``total`` in [0, 1]. ``info`` has the components under the original's names."""

    total: float
    attribute_matches: int
    option_matches: int
    info: Mapping[str, Any]


def compute_reward(
    product: Product, wish: Wish, price: float | None, options: Mapping[str, str], compat: Compat
) -> Reward:
    """The reward of buying ``product`` at ``price`` with ``options`` (value by group). Raises RequestError without a price."""
    if price is None:
        raise RequestError(f"product {product.asin}: it has no price; accepted: a number")
    if compat == "original":
        n_attributes = sum(_has_attribute_original(product, wished) for wished in wish.attributes)
        n_options = _count_options_original(options, wish.options)
    else:
        n_attributes = sum(_has_attribute(product, wished) for wished in wish.attributes)
        n_options = _count_options(options, wish.options)
    info = _type_info(product, wish, compat)
    fits = price <= wish.price_upper
    asked = len(wish.attributes) + len(wish.options) + 1
    total = (n_attributes + n_options + fits) / asked * info["r_type"]
    info |= {"r_att": n_attributes / len(wish.attributes), "w_att": len(wish.attributes) / asked}
    if wish.options:
        info |= {"r_option": n_options / len(wish.options), "w_option": len(wish.options) / asked}
    info |= {"r_price": fits, "w_price": 1 / asked}
    return Reward(total, n_attributes, n_options, info)


def _type_info(product: Product, wish: Wish, compat: Compat) -> dict[str, Any]:
    query_match = product.query == wish.query
    common = _levels(product.product_category) & _levels(wish.product_category)
    category_match = len(common) >= 2
    wished = wish.nouns if compat == "original" else tuple(dict.fromkeys(wish.nouns))
    title_score = len(set(product.nouns) & set(wished)) / len(wished) if wished else 0.2
    r_type = 1.0
    if not (query_match or category_match or title_score > 0.2):
        r_type = 0.5
    if compat == "original" or r_type < 1:
        if title_score < 0.1:
            r_type = 0.1
        if title_score == 0:
            r_type = 0.0
    return {
        "r_type": r_type,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


@lru_cache(maxsize=4096)
def _levels(product_category: str) -> frozenset[str]:
    return frozenset(level.strip() for level in product_category.split("›"))


# ------------------------------------------------------------------------------------------------------- original


@lru_cache(maxsize=16_384)
def _processed(text: str) -> str:
    """As thefuzz prepares its arguments: without the upper half of Latin-1, words apart, lower case."""
    return str(fuzz_utils.default_process(text.translate(_LATIN)))


def _alike(first: str, second: str) -> bool:
    return round(fuzz.token_set_ratio(_processed(first), _processed(second))) > 85


def _has_attribute_original(product: Product, wished: str) -> bool:
    return (
        any(_alike(own, wished) for own in product.attributes)
        or wished in product.title.lower()
        or wished in " ".join(product.bullets).lower()
        or wished in product.description.lower()
    )


def _count_options_original(purchased: Mapping[str, str], wished: GoalOptions) -> int:
    values = [normalize_colour(value) for value in purchased.values()]
    if isinstance(wished, Mapping):
        # The original hands (name, value) pairs on: only an element equal to a colour word is one, else the pair is printed.
        wishes = [next((c for c in COLOURS if c in pair), str(pair)) for pair in wished.items()]
    else:
        wishes = [normalize_colour(value) for value in wished]
    return sum(any(_alike(value, wish) for value in values) for wish in wishes)


# ---------------------------------------------------------------------------------------------------------- fixed


def canonical_value(value: str) -> str:
    """The form in which two option values are compared."""
    return " ".join(value.lower().replace("/", " | ").replace("|", " | ").split())


def _has_attribute(product: Product, wished: str) -> bool:
    phrase = " ".join(wished.lower().split())
    if any(" ".join(own.lower().split()) == phrase for own in product.attributes):
        return True
    pattern = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
    texts = (product.title, *product.bullets, product.description)
    return any(pattern.search(" ".join(text.lower().split())) for text in texts)


def _count_options(purchased: Mapping[str, str], wished: GoalOptions) -> int:
    if isinstance(wished, Mapping):
        return sum(
            name in purchased and canonical_value(purchased[name]) == canonical_value(value)
            for name, value in wished.items()
        )
    left = [canonical_value(value) for value in purchased.values()]
    count = 0
    for value in wished:
        if canonical_value(value) in left:
            left.remove(canonical_value(value))
            count += 1
    return count
