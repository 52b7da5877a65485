"""The shop over HTTP: pages for people under the original's routes, and the API for agents. One process, no state outside it."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness import streams
from tasks.webshop import pages
from tasks.webshop.api import Api, answer
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.draw import draw_goal
from tasks.webshop.guard import Guard
from tasks.webshop.html import Links, picture, render_error, render_page
from tasks.webshop.pages import View
from tasks.webshop.session import MAX_ARGUMENT, Session, SessionSettings
from tasks.webshop.settings import ServerSettings
from tasks.webshop.store import SessionStore, StoreFull

_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FIXED = re.compile(r"fixed_(\d{1,9})$")
_LONGEST_LITERAL = 8000
_LAST_PAGE = 1_000_000


def create_app(
    catalogue: Catalogue, settings: ServerSettings, clock: Callable[[], float] = time.monotonic
) -> ASGIApp:
    """The ASGI application."""
    store = SessionStore(settings.session_limit, settings.session_ttl_s, clock)
    shop = _Pages(catalogue, settings, store)
    routes = [*Api(catalogue, settings, store).routes(), *shop.routes()]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _error_page, StoreFull: _full_page})
    return Guard(app, settings.hosts, settings.body_limit)


def _page(status: int, message: str) -> HTMLResponse:
    return HTMLResponse(render_error(status, HTTPStatus(status).phrase, message), status)


async def _error_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/api/"):
        response = answer({"error": error.detail}, error.status_code)
    else:
        response = _page(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _full_page(request: Request, error: Exception) -> Response:
    return _page(503, str(error))


def _literal(text: str, name: str) -> Any:
    """A Python literal in an address, as the original writes options and keywords."""
    if len(text) > _LONGEST_LITERAL:
        raise HTTPException(400, f"{name}: {len(text)} characters; accepted: {_LONGEST_LITERAL} at most")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise HTTPException(400, f"{name}: not a literal; accepted: such as {{'color': 'black'}}") from None


def _keywords(text: str) -> tuple[str, ...]:
    """A list of words as a literal, or plain words."""
    words: list[str]
    if text.startswith("["):
        try:
            value = _literal(text, "keywords")
        except HTTPException:
            value = None
        words = [str(word) for word in value] if isinstance(value, list) and value else text.split(" ")
    else:
        words = text.split(" ")
    if sum(map(len, words)) > MAX_ARGUMENT:
        raise HTTPException(400, f"keywords: accepted: {MAX_ARGUMENT} characters at most")
    return tuple(word.lower() for word in words)


class _Pages:
    def __init__(self, catalogue: Catalogue, settings: ServerSettings, store: SessionStore) -> None:
        self._catalogue, self._settings, self._store = catalogue, settings, store
        self._style = files("tasks.webshop").joinpath("static/shop.css").read_text(encoding="utf-8")

    def routes(self) -> list[Route]:
        item = "/item_page/{key}/{asin}/{keywords}/{page}/{options:path}"
        sub = "/item_sub_page/{key}/{asin}/{keywords}/{page}/{sub}/{options:path}"
        return [
            Route("/", self.start),
            Route("/static/shop.css", self.style),
            Route("/favicon.ico", self.icon),
            Route("/picture/{asin}.svg", self.picture),
            Route("/search_results/{key}/{keywords}/{page}", self.results),
            Route(item, self.item),
            Route(sub, self.sub),
            Route("/done/{key}/{asin}/{options:path}", self.done, methods=["GET", "POST"]),
            Route("/{key}", self.index, methods=["GET", "POST"]),
        ]

    async def start(self, request: Request) -> Response:
        """A session of one's own."""
        self._store.make_room()
        return RedirectResponse(f"/{self._store.new_key()}", 303)

    async def style(self, request: Request) -> Response:
        return Response(self._style, media_type="text/css")

    async def icon(self, request: Request) -> Response:
        return Response(status_code=204)

    async def picture(self, request: Request) -> Response:
        number = self._catalogue.number(request.path_params["asin"])
        if number is None:
            raise HTTPException(404, "There is no such product.")
        return Response(picture(self._catalogue.product(number)), media_type="image/svg+xml")

    # ------------------------------------------------------------------------------------------------------- sessions

    def _open(self, key: str) -> Session:
        """The session of a key; a new one for a key that is not in use. ``fixed_N`` has goal N, others draw theirs."""
        session = self._store.get(key)
        if session is not None:
            return session
        if not _KEY.fullmatch(key):
            raise HTTPException(
                404, "There is no such page. Accepted as a session: letters, digits, _ and -, 64 at most."
            )
        s = self._settings
        seed = streams.derive(0, "webshop", "session", key)
        fixed = _FIXED.search(key)
        count = self._catalogue.goal_count(s.goals)
        if fixed and int(fixed[1]) >= count:
            raise HTTPException(
                404, f"There is no goal {int(fixed[1])}; accepted: fixed_0 to fixed_{count - 1}."
            )
        index = int(fixed[1]) if fixed else draw_goal(self._catalogue, s.goals, s.compat, seed)
        settings = SessionSettings("html", s.compat, s.show_attributes, s.results_per_page)
        session = Session(
            self._catalogue, self._catalogue.goal(index, s.goals, s.compat), settings, key, seed
        )
        self._store.add(key, session)
        return session

    def _known(self, request: Request) -> tuple[str, Session]:
        key = request.path_params["key"]
        session = self._store.get(key)
        if session is None:
            raise HTTPException(404, "There is no such session, or its time is over. Start a new one.")
        return key, session

    def _show(self, key: str, session: Session, view: View) -> Response:
        if not self._is_over(session):
            session.show(view)
        return self._rendered(key, session)

    @staticmethod
    def _rendered(key: str, session: Session) -> Response:
        text = render_page(session.page, session.goal.instruction, key, session.visited)
        session.rest()
        return HTMLResponse(text)

    def _is_over(self, session: Session) -> bool:
        """After a purchase, ``fixed`` shows nothing but its result; the original lets one shop on."""
        return session.bought is not None and self._settings.compat == "fixed"

    # ---------------------------------------------------------------------------------------------------------- pages

    async def index(self, request: Request) -> Response:
        key = request.path_params["key"]
        session = self._open(key)
        if request.method == "GET":
            return self._show(key, session, View())
        try:
            form = parse_qs((await request.body()).decode("utf-8"), errors="strict", max_num_fields=10)
        except ValueError:
            raise HTTPException(400, "The form cannot be read; accepted: search_query in UTF-8.") from None
        words = " ".join(form.get("search_query", [""])[0].split())
        if not words:
            return RedirectResponse(f"/{quote(key)}", 303)
        if len(words) > MAX_ARGUMENT:
            raise HTTPException(
                400, f"The search has {len(words)} characters; accepted: {MAX_ARGUMENT} at most."
            )
        view = View("results", tuple(words.lower().split(" ")))
        return RedirectResponse(Links(key, view).results(1), 303)

    async def results(self, request: Request) -> Response:
        key, session = self._known(request)
        keywords = _keywords(request.path_params["keywords"])
        found = session.find(keywords)
        if found is None:
            raise HTTPException(400, f"{keywords[0]} cannot be searched so.")
        return self._show(key, session, View("results", keywords, self._number(request), found))

    @staticmethod
    def _number(request: Request) -> int:
        text = request.path_params["page"]
        if not text.isascii() or not text.isdigit() or len(text) > 7 or not 1 <= int(text) <= _LAST_PAGE:
            raise HTTPException(400, f"page: {text!r:.40}; accepted: 1 to {_LAST_PAGE}")
        return int(text)

    def _product(self, request: Request, kind: pages.PageKind, sub: str = "") -> View:
        """The view of a product's page, its options checked against what the product has."""
        parameters = request.path_params
        number = self._catalogue.number(parameters["asin"])
        if number is None:
            number = self._catalogue.number(parameters["asin"].upper())
        if number is None:
            raise HTTPException(404, "There is no such product.")
        options = _literal(parameters["options"] or "{}", "options")
        offered = self._catalogue.product(number).options
        if not isinstance(options, Mapping) or not all(
            isinstance(name, str) and value in offered.get(name, ()) for name, value in options.items()
        ):
            raise HTTPException(400, "options: accepted: values that the product has, by group")
        keywords = _keywords(parameters["keywords"]) if "keywords" in parameters else ()
        page = self._number(request) if "page" in parameters else 1
        return View(kind, keywords, page, (), number, sub, options)

    async def item(self, request: Request) -> Response:
        key, session = self._known(request)
        return self._show(key, session, self._product(request, "item"))

    async def sub(self, request: Request) -> Response:
        key, session = self._known(request)
        offered = pages.SUB_PAGES[: 4 if self._settings.show_attributes else 3]
        sub = request.path_params["sub"]
        if sub not in offered:
            raise HTTPException(404, f"There is no such page; accepted: {', '.join(offered)}.")
        return self._show(key, session, self._product(request, "sub", sub))

    async def done(self, request: Request) -> Response:
        """The purchase. Its first result stands in ``fixed``."""
        key, session = self._known(request)
        view = self._product(request, "item")
        if not self._is_over(session):
            session.show(view)
            session.buy()
        return self._rendered(key, session)
