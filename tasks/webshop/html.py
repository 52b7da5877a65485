"""HTML of the shop's pages, for people and for the ``html`` observation mode, with links in the form of the original's routes."""

from __future__ import annotations

import colorsys
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import escape

from tasks.webshop.pages import RATING, SUB_PAGES, Node, View
from tasks.webshop.product import Product
from tasks.webshop.session import MAX_ARGUMENT, Page


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates; everything that they print is escaped."""
    return Environment(
        loader=PackageLoader("tasks.webshop"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def _segment(text: str) -> str:
    """One part of a path. A slash parts words as a space does, so it becomes one."""
    return quote(text.replace("/", " "), safe="")


class Links:
    """Addresses of the pages that lead on from a view."""

    def __init__(self, session: str, view: View) -> None:
        self._session = _segment(session)
        self._view = view
        self._words = _segment(" ".join(view.keywords or ()) or " ")

    def index(self) -> str:
        return f"/{self._session}"

    def results(self, page: int) -> str:
        return f"/search_results/{self._session}/{self._words}/{page}"

    def item(self, product: Product, options: Mapping[str, str] | None = None) -> str:
        chosen = quote(repr(dict(options or {})), safe="")
        return f"/item_page/{self._session}/{quote(product.asin, safe='')}/{self._words}/{self._view.page}/{chosen}"

    def option(self, node: Node) -> str:
        chosen = {**self._view.options, node.group: node.value}
        return f"/item_page/{self._session}/{self._asin}/{self._words}/{self._view.page}/{quote(repr(chosen), safe='')}"

    def sub(self, name: str) -> str:
        return f"/item_sub_page/{self._session}/{self._asin}/{self._words}/{self._view.page}/{name}/{self._chosen}"

    def done(self) -> str:
        return f"/done/{self._session}/{self._asin}/{self._chosen}"

    def picture(self, product: Product) -> str:
        return f"/picture/{quote(product.asin, safe='')}.svg"

    asin = ""

    @property
    def _asin(self) -> str:
        return quote(self.asin, safe="")

    @property
    def _chosen(self) -> str:
        return quote(repr(dict(self._view.options)), safe="")


def render_page(page: Page, instruction: str, session: str, visited: frozenset[str] = frozenset()) -> str:
    """The page of a session. ``visited``: asins to be shown as seen."""
    view = page.view
    product = page.products[0] if view.product is not None else None
    links = Links(session, view)
    links.asin = product.asin if product else ""
    options = [node for node in page.nodes if node.kind == "option"]
    texts = [node.text.strip() for node in page.nodes if node.kind == "text"]
    return (
        environment()
        .get_template(f"{view.kind}.html")
        .render(
            view=view,
            links=links,
            instruction=instruction,
            clickables=page.clickables,
            products=page.products,
            product=product,
            visited=visited,
            groups=[(group, list(nodes)) for group, nodes in groupby(options, key=lambda node: node.group)],
            subs=[name for name in SUB_PAGES if name.lower() in page.clickables],
            texts=[text for text in texts[2:] if text],
            options_json=json.dumps(dict(view.options), ensure_ascii=False),
            rating=RATING,
            max_argument=MAX_ARGUMENT,
        )
    )


def render_error(status: int, phrase: str, message: str) -> str:
    """A page that says what went wrong."""
    template = environment().get_template("error.html")
    return template.render(status=status, phrase=phrase, message=message, instruction="")


def picture(product: Product) -> str:
    """A placeholder drawn as SVG: a colour of its own, a shape of its category, the first letters of its title."""
    digest = hashlib.sha256(product.asin.encode()).digest()
    red, green, blue = colorsys.hls_to_rgb(digest[0] / 255, 0.82, 0.5)
    ground = f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"
    ink = "#2d333b"
    shapes = (
        '<rect x="30" y="45" width="100" height="70" rx="8"/>',
        '<circle cx="80" cy="78" r="45"/>',
        '<path d="M80 30 130 115H30Z"/>',
        '<path d="M35 60 60 35h40l25 25-15 15-8-8v60H58V67l-8 8Z"/>',
        '<path d="M55 35h50l-8 25v60H63V60Z"/>',
    )
    shape = shapes[sum(product.category.encode()) % len(shapes)]
    letters = escape("".join(word[0] for word in product.title.split()[:2]).upper())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 160"><rect width="160" height="160" fill="{ground}"/>'
        f'<g fill="none" stroke="{ink}" stroke-width="4" stroke-linejoin="round">{shape}</g>'
        f'<text x="80" y="150" text-anchor="middle" font-family="sans-serif" font-size="20" fill="{ink}">{letters}</text></svg>'
    )
