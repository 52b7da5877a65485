"""A shopping session: one goal, one place, the original's transitions. Everything it does is a function of its actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from harness import streams
from tasks.webshop import pages
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.goals import Goal
from tasks.webshop.pages import Node, ObservationMode, View
from tasks.webshop.product import Product
from tasks.webshop.reward import Compat, Reward, compute_reward
from tasks.webshop.search import MAX_RESULTS

MAX_ARGUMENT = 2000
"""Characters of an action's argument; longer ones are refused."""

_ACTION = re.compile(r"(.+)\[(.+)\]")


class ParsedAction(NamedTuple):
    """``name`` is everything before the last opening bracket, ``argument`` is in lower case, or None where there is none."""

    name: str
    argument: str | None


def parse_action(text: str) -> ParsedAction:
    """``name[argument]`` at the start of the first line; anything after the last closing bracket is ignored."""
    match = _ACTION.match(text)
    return ParsedAction(match[1], match[2].lower()) if match else ParsedAction(text, None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``invalid``: why the action did nothing; empty when it did something."""

    reward: float = 0.0
    done: bool = False
    invalid: str = ""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """``show_attributes``: the item page has a button for them, as the original's ``show_attrs``. ``per_page``: products on a
    page of results; the original's 10."""

    mode: ObservationMode = "text"
    compat: Compat = "fixed"
    show_attributes: bool = False
    per_page: int = pages.PER_PAGE


class Page:
    """A view with what is shown of it, worked out when it is asked for."""

    def __init__(self, view: View, goal: Goal, catalogue: Catalogue, settings: SessionSettings) -> None:
        self.view = view
        self._goal, self._catalogue, self._settings = goal, catalogue, settings

    @cached_property
    def products(self) -> list[Product]:
        view = self.view
        if view.kind == "results":
            return [self._catalogue.product(number) for number in view.shown]
        return [] if view.product is None else [self._catalogue.product(view.product)]

    @cached_property
    def nodes(self) -> list[Node]:
        s = self._settings
        return pages.nodes(self.view, self._goal.instruction, self.products, s.compat, s.show_attributes)

    @cached_property
    def clickables(self) -> dict[str, Node]:
        return pages.clickables(self.nodes)

    @property
    def has_search_bar(self) -> bool:
        return self.view.kind == "index"


class Session:
    """``name`` stands in addresses only. ``seed``: of the results of the special search ``<r>``."""

    def __init__(
        self, catalogue: Catalogue, goal: Goal, settings: SessionSettings, name: str = "0", seed: int = 0
    ) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._seed = seed
        self._searches = 0
        self.goal = goal
        self.name = name
        self.visited: frozenset[str] = frozenset()
        self.bought: Reward | None = None
        self.page = self._page(View(per_page=settings.per_page))

    def _page(self, view: View) -> Page:
        return Page(view, self.goal, self._catalogue, self._settings)

    # -------------------------------------------------------------------------------------------------- what is seen

    def url(self) -> str:
        """The original's address of the present page."""
        asin = self.page.products[0].asin if self.page.view.product is not None else ""
        return self.page.view.url(self.name, asin)

    def observation(self) -> str:
        """In the session's mode."""
        view, compat = self.page.view, self._settings.compat
        if self._settings.mode == "text":
            return pages.text_observation(self.page.nodes, view.options, compat)
        if self._settings.mode == "text_rich":
            url = self.url() if compat == "original" else ""
            return pages.rich_observation(self.page.nodes, view.options, self.visited, url, compat)
        if self._settings.mode == "brief":
            return pages.brief_observation(view, self.goal.instruction, self.page.products, self.page.nodes)
        from tasks.webshop.html import render_page

        return render_page(self.page, self.goal.instruction, self.name, self.visited)

    @property
    def has_search_bar(self) -> bool:
        return self.page.has_search_bar

    def clickables(self) -> list[str]:
        """Texts that can be clicked, in lower case."""
        return list(self.page.clickables)

    def admissible(self) -> tuple[str, ...]:
        """The actions that would do something here."""
        search = ("search[<your query>]",) if self.has_search_bar else ()
        return (*search, *(f"click[{text}]" for text in self.page.clickables if text != "search"))

    # ---------------------------------------------------------------------------------------------------- what is done

    def rest(self) -> None:
        """Forget what can be worked out again; for sessions that wait in numbers."""
        self.page = self._page(self.page.view)

    def show(self, view: View) -> None:
        """Go straight to a place, as a link does. The view's product and options must exist."""
        self.page = self._page(replace(view, per_page=self._settings.per_page))
        if view.kind == "item":
            self.visited |= {self.page.products[0].asin}
        if view.kind == "index":
            self.visited = frozenset()

    def act(self, action: ParsedAction) -> Outcome:
        """One step. What means nothing changes nothing, and the outcome says why."""
        if self.page.view.kind == "done" and self._settings.compat == "fixed":
            return Outcome(invalid="the session is over")
        name, argument = action
        if argument is None or name not in ("search", "click"):
            return Outcome(invalid="not an action; accepted: search[...] or click[...]")
        if len(argument) > MAX_ARGUMENT:
            return Outcome(
                invalid=f"the argument has {len(argument)} characters; accepted: {MAX_ARGUMENT} at most"
            )
        if name == "search":
            return self._search(tuple(argument.split(" ")))
        if argument == "search" or argument not in self.page.clickables:
            return Outcome(invalid="nothing of that text can be clicked on this page")
        return self._click(argument)

    def _go(self, view: View) -> Outcome:
        self.page = self._page(view)
        return Outcome()

    def _search(self, keywords: tuple[str, ...]) -> Outcome:
        results = self.find(keywords)
        if results is None:
            return Outcome(invalid=f"{keywords[0]} cannot be searched so")
        return self._go(View("results", keywords, 1, results, per_page=self._settings.per_page))

    def find(self, keywords: tuple[str, ...]) -> Sequence[int] | None:
        """Product numbers; None for a special search that crashes the original. ``fixed`` knows no special searches."""
        first = keywords[0]
        if self._settings.compat == "fixed" or first not in ("<r>", "<a>", "<c>", "<q>"):
            return self._catalogue.search(" ".join(keywords))
        if first == "<r>":
            self._searches += 1
            generator = streams.stream(self._seed, "webshop", "random-results", self._searches)
            count = min(MAX_RESULTS, len(self._catalogue))
            return tuple(generator.choice(len(self._catalogue), size=count, replace=False).tolist())
        if first == "<q>":
            return self._catalogue.of_query(" ".join(keywords[1:]).strip())
        if first == "<c>" and len(keywords) > 1:
            return self._catalogue.of_category(keywords[1].strip())
        return None

    def _results(self, page: int) -> Outcome:
        """The results again, at a page; leaving an item forgets its options."""
        keywords = self.page.view.keywords or ()
        again = self._settings.compat == "original" and keywords[0] == "<r>"
        results = self.find(keywords) if again else self.page.view.results
        return self._go(View("results", keywords, page, results or (), per_page=self._settings.per_page))

    def _page_name(self) -> str:
        """Which page the buttons take this for. The original looks for names of pages anywhere in the address."""
        kind = {"results": "search_results", "item": "item_page", "sub": "item_sub_page"}.get(
            self.page.view.kind, ""
        )
        if self._settings.compat == "fixed":
            return kind
        url = self.url()
        return next((name for name in ("search_results", "item_page", "item_sub_page") if name in url), kind)

    def _click(self, text: str) -> Outcome:
        view = self.page.view
        node = self.page.clickables[text]
        # The original goes by the text alone, so an option that is called like a button is that button.
        named = text if self._settings.compat == "original" or node.kind == "button" else ""
        if named == "buy now":
            return self.buy()
        if named == "back to search":
            self.visited = frozenset()
            return self._go(View(per_page=self._settings.per_page))
        if named in ("next >", "< prev"):
            name = self._page_name()
            if name == "search_results":
                return self._results(view.page + (1 if named == "next >" else -1))
            if named == "< prev":
                return self._go(view.at("item")) if name == "item_sub_page" else self._results(view.page)
        sub = next((sub for sub in pages.SUB_PAGES if sub.lower() == named), "")
        if sub:
            return self._go(view.at("sub", sub))
        if node.kind == "product":
            asin = text.upper() if self._settings.compat == "original" else node.text
            number = self._catalogue.number(asin)
            if number is None:
                return Outcome(invalid=f"there is no product {asin}")
            self.visited |= {asin}
            return self._go(replace(view, kind="item", product=number))
        return self._go(replace(view, kind="item", options={**view.options, node.group: node.value}))

    def buy(self) -> Outcome:
        """Buy the product of the present page, with the options chosen."""
        view = self.page.view
        product, number = self.page.products[0], view.product
        assert number is not None
        compat = self._settings.compat
        price = self._catalogue.price(number, compat)
        self.bought = compute_reward(product, self.goal.wish, price, view.options, compat)
        self._go(replace(view, kind="done", reward=self.bought.total))
        return Outcome(self.bought.total, True)
