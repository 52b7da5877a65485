"""Scripted shoppers: one who buys what the goal asks for, and one who errs in the usual ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from harness import streams
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.product import Product
from tasks.webshop.reward import canonical_value, compute_reward
from tasks.webshop.session import Session, SessionSettings, parse_action
from tasks.webshop.task import WebShopTask

PAGES_LOOKED_AT = 3

# How often the flawed shopper does what: they set where the embedded policy starts.
KIND_ALONE = 0.1
"""Searches for the kind of product alone."""
WITHOUT_OPTIONS = 0.2
"""Searches without the options."""
FIRST_RESULT = 0.8
RIGHT_OPTION = 0.19
WRONG_OPTION = 0.1
"""Of a group; else it chooses none."""

T = TypeVar("T")


def wanted_options(task: WebShopTask, product: Product) -> dict[str, str]:
    """The values of a product that the goal asks for, by group, as far as it has them."""
    goal = task.goal.options
    found = {}
    for group, values in product.options.items():
        wished = [goal[group]] if isinstance(goal, dict) and group in goal else []
        if not isinstance(goal, dict):
            wished = list(goal)
        canonical = {canonical_value(wish) for wish in wished}
        value = next((value for value in values if canonical_value(value) in canonical), None)
        if value is not None:
            found[group] = value
    return found


class _Shopper:
    """Plays a session of its own and notes what it says."""

    def __init__(self, catalogue: Catalogue, task: WebShopTask, settings: SessionSettings) -> None:
        self.catalogue, self.task, self.settings = catalogue, task, settings
        self.session = Session(catalogue, task.goal, settings)
        self.replies: list[str] = []

    def say(self, reply: str) -> None:
        self.replies.append(reply)
        self.session.act(parse_action(reply))

    def words(self) -> str:
        """The instruction without its opening and its bound."""
        text = self.task.goal.instruction.split(", and price lower than")[0].lower()
        return text.removeprefix("find me ").replace("[", " ").replace("]", " ")

    def value(self, product: Product) -> float:
        """The reward of buying the product with the options that the goal asks for."""
        compat = self.task.compat
        number = self.catalogue.number(product.asin)
        assert number is not None
        price = self.catalogue.price(number, compat)
        return compute_reward(
            product, self.task.goal.wish, price, wanted_options(self.task, product), compat
        ).total

    def open(self, product: Product) -> None:
        self.say(f"click[{product.asin.lower()}]")

    def choose(self, group: str, value: str) -> None:
        node = next(
            n for n in self.session.page.nodes if n.kind == "option" and (n.group, n.value) == (group, value)
        )
        self.say(f"click[{node.text}]")

    def buy(self) -> list[str]:
        self.say("click[buy now]")
        return self.replies


def expert(catalogue: Catalogue, task: WebShopTask, settings: SessionSettings) -> list[str]:
    """Searches for the instruction's own words, takes the first product that fits in all on the first pages (else the best
    fitting one of the last page looked at), chooses every option that is asked for, buys."""
    shopper = _Shopper(catalogue, task, settings)
    shopper.say(f"search[{shopper.words()}]")
    for looked in range(1, PAGES_LOOKED_AT + 1):
        products = shopper.session.page.products
        values = [shopper.value(product) for product in products]
        more = "next >" in shopper.session.page.clickables
        if 1.0 in values or not more or looked == PAGES_LOOKED_AT:
            break
        shopper.say("click[next >]")
    if not products:
        return shopper.replies
    product = products[int(np.argmax(values))]
    shopper.open(product)
    for group, value in wanted_options(task, product).items():
        shopper.choose(group, value)
    return shopper.buy()


def flawed(catalogue: Catalogue, task: WebShopTask, settings: SessionSettings, seed: int) -> list[str]:
    """Searches with fewer words, takes what comes first, leaves options out or takes a wrong one."""
    draw = streams.stream(seed, "demonstration", "flawed", task.task_id)
    shopper = _Shopper(catalogue, task, settings)
    words = shopper.words()
    kind = draw.random()
    if kind < KIND_ALONE:
        words = task.goal.product.query
    elif kind < KIND_ALONE + WITHOUT_OPTIONS:
        words = words.split(" with ")[0].split(" in ")[0]
    shopper.say(f"search[{words}]")
    products = shopper.session.page.products
    if not products:
        return shopper.replies
    product = products[0] if draw.random() < FIRST_RESULT else _pick(products, draw)
    shopper.open(product)
    wanted = wanted_options(task, product)
    for group, values in product.options.items():
        chance = draw.random()
        if chance < RIGHT_OPTION and group in wanted:
            shopper.choose(group, wanted[group])
        elif chance > 1 - WRONG_OPTION:
            shopper.choose(group, _pick(values, draw))
    return shopper.buy()


def _pick(items: Sequence[T], draw: np.random.Generator) -> T:
    return items[int(draw.integers(len(items)))]
