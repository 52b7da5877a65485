"""Pages as lists of visible text nodes, and what agents see of them. Pure functions of a view, its goal and the catalogue.

A node is ``(kind, text)``: plain text, a button, a link to a product, or an option of a group. The text observations follow
the original's pages node by node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from tasks.webshop.product import Product
from tasks.webshop.reward import Compat

BASE_URL = "http://127.0.0.1:3000"
PER_PAGE = 10
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
SEARCH, BACK, PREVIOUS, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
RATING = "N.A."

PageKind = Literal["index", "results", "item", "sub", "done"]
ObservationMode = Literal["text", "text_rich", "html", "brief"]


@dataclass(frozen=True, slots=True)
class View:
    """Where a session is. ``results``: product numbers, all pages of them. ``options``: chosen values by group, in the order in
    which the groups were first chosen from."""

    kind: PageKind = "index"
    keywords: tuple[str, ...] | None = None
    page: int = 1
    results: Sequence[int] = ()
    product: int | None = None
    sub: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    reward: float | None = None
    per_page: int = PER_PAGE

    def at(self, kind: PageKind, sub: str = "") -> View:
        """The same place on another page."""
        return replace(self, kind=kind, sub=sub)

    @property
    def shown(self) -> Sequence[int]:
        """Product numbers on this page of the results."""
        return self.results[(self.page - 1) * self.per_page : self.page * self.per_page]

    def url(self, session: str, asin: str) -> str:
        """The original's address of the page; ``asin`` is of the view's product."""
        words = "+".join(self.keywords or ())
        if self.kind == "results":
            return f"{BASE_URL}/search_results/{session}/{words}/{self.page}"
        if self.kind == "item":
            return (
                f"{BASE_URL}/item_page/{session}/{asin}/{words}/{self.page}/{json.dumps(dict(self.options))}"
            )
        if self.kind == "sub":
            return f"{BASE_URL}/item_sub_page/{session}/{asin}/{words}/{self.page}/{self.sub}/{dict(self.options)}"
        if self.kind == "done":
            return f"{BASE_URL}/done/{session}/{asin}/{dict(self.options)}"
        return f"{BASE_URL}/{session}"


class Node(NamedTuple):
    kind: Literal["text", "button", "product", "option"]
    text: str
    group: str = ""
    """Of an option."""
    value: str = ""
    """Of an option: what choosing it chooses, which its text may qualify."""


def _text(text: str) -> Node:
    return Node("text", text)


def _button(text: str) -> Node:
    return Node("button", text)


def nodes(
    view: View,
    instruction: str,
    products: Sequence[Product],
    compat: Compat,
    show_attributes: bool = False,
) -> list[Node]:
    """What is visible, in page order. ``products``: those shown on a page of results, or the one of an item or sub page."""
    if view.kind == "index":
        return [_text("WebShop"), _text("Instruction: "), _text(instruction), _button(SEARCH)]
    if view.kind == "done":
        return _done(view, products[0])
    page = [_text("Instruction:"), _text(instruction), _button(BACK)]
    if view.kind == "results":
        page.append(_text(f"Page {view.page} (Total results: {len(view.results)})"))
        if view.page > 1:
            page.append(_button(PREVIOUS))
        if compat == "original" or view.page * view.per_page < len(view.results):
            page.append(_button(NEXT))
        for product in products:
            page += (Node("product", product.asin), _text(product.title), _text(product.price_tag))
        return page
    page.append(_button(PREVIOUS))
    page += (
        _item(products[0], compat, show_attributes) if view.kind == "item" else _sub(view.sub, products[0])
    )
    return page


def _item(product: Product, compat: Compat, show_attributes: bool) -> list[Node]:
    page = []
    for group, values in product.options.items():
        page.append(_text(group))
        page += (Node("option", value, group, value) for value in values)
    page += (_text(product.title), _text(f"Price: {product.price_tag}"), _text(f"Rating: {RATING}"))
    page += (_button(name) for name in SUB_PAGES[: 4 if show_attributes else 3])
    page.append(_button(BUY))
    return page if compat == "original" else _qualified(page)


def _qualified(page: list[Node]) -> list[Node]:
    """Options whose text another group or a button has too are written ``group: value``."""
    buttons = {node.text.lower() for node in page if node.kind == "button"}
    groups: dict[str, set[str]] = {}
    for node in page:
        if node.kind == "option":
            groups.setdefault(node.value, set()).add(node.group)
    return [
        node._replace(text=f"{node.group}: {node.value}")
        if node.kind == "option" and (len(groups[node.value]) > 1 or node.value in buttons)
        else node
        for node in page
    ]


def _sub(name: str, product: Product) -> list[Node]:
    if name == "Description":
        return [_text(product.description)]
    if name == "Features":
        return [_text(f" {bullet}") for bullet in product.bullets]
    if name == "Attributes":
        told = (product.category, product.query, product.product_category)
        return [_text(f" {text}") for text in (*product.attributes, *told)]
    return []


def _done(view: View, product: Product) -> list[Node]:
    texts = [
        *("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)"),
        *("Purchased", "asin", product.asin, "options", json.dumps(dict(view.options))),
        *("attrs", "None", "category", "None", "query", "None", "product category", "None"),
        *(
            "Target",
            "asin",
            "options",
            "attrs",
            "price upper",
            "instuction text",
            "category",
            "product category",
        ),
        *("query", "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)", str(view.reward)),
        *("Reward Details ", "None"),
    ]
    return [_text(text) for text in texts]


def clickables(page: Iterable[Node]) -> dict[str, Node]:
    """What can be clicked, by its text in lower case: buttons and products in page order, then options; of equal texts the last."""
    found: dict[str, Node] = {}
    options = []
    for node in page:
        if node.kind == "option":
            options.append(node)
        elif node.kind != "text":
            found[node.text.lower()] = node
    for node in options:
        found[node.text.lower()] = node
    return found


def text_observation(page: Iterable[Node], chosen: Mapping[str, str], compat: Compat) -> str:
    """The ``text`` mode: nodes joined by `` [SEP] ``. ``fixed`` marks the chosen options, the original shows none."""
    if compat == "original" or not chosen:
        return " [SEP] ".join(filter(None, (node.text.strip() for node in page)))
    return " [SEP] ".join(
        filter(None, (_marked(node) if _is_chosen(node, chosen) else node.text.strip() for node in page))
    )


def _is_chosen(node: Node, chosen: Mapping[str, str]) -> bool:
    return node.kind == "option" and chosen.get(node.group) == node.value


def _marked(node: Node) -> str:
    return f"{node.text.strip()} (chosen)"


def rich_observation(
    page: Iterable[Node], chosen: Mapping[str, str], visited: frozenset[str], url: str, compat: Compat
) -> str:
    """The ``text_rich`` mode: a node a line, with what is a button and what was clicked.

    visited: asins seen since the last return to the search page. The original takes an option for clicked when its text stands
    in double quotes somewhere in the address; ``fixed`` looks at what was chosen.
    """
    lines: list[str] = []
    clicked: list[str] = []
    for node in page:
        if node.kind == "button":
            lines.append(f"[button] {node.text} [button_]")
        elif node.kind == "product":
            mark = "clicked button" if node.text in visited else "button"
            lines.append(f"\n[{mark}] {node.text} [{mark}_]")
        elif node.kind == "option":
            is_clicked = f'"{node.text}"' in url if compat == "original" else _is_chosen(node, chosen)
            if is_clicked:
                clicked.append(f"You have clicked {node.text}.")
            mark = "clicked button" if is_clicked else "button"
            lines.append(f"  [{mark}] {node.text} [{mark}_]")
        elif node.text.strip():
            lines.append(node.text)
    return "\n".join([*reversed(clicked), *lines, ""])


def brief_observation(view: View, instruction: str, products: Sequence[Product], page: Iterable[Node]) -> str:
    """The ``brief`` mode, for policies of very few parameters: in lower case, without what every page says."""
    if view.kind == "index":
        return instruction.lower()
    if view.kind == "results":
        lines = [f"{product.asin} {product.title} {product.price_tag}" for product in products]
        return "\n".join(lines or ["nothing found"]).lower()
    if view.kind == "item":
        groups: dict[str, list[str]] = {}
        for node in page:
            if node.kind == "option":
                groups.setdefault(node.group, []).append(
                    _marked(node) if _is_chosen(node, view.options) else node.text.strip()
                )
        return "\n".join(
            [*(f"{group}: {', '.join(values)}" for group, values in groups.items()), "buy now"]
        ).lower()
    if view.kind == "sub":
        return "\n".join(node.text.strip() for node in _sub(view.sub, products[0])).lower()
    return f"score {view.reward}"
