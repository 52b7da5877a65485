"""The HTTP API for agents: create a session, step it, look at it, close it. Its OpenAPI document is made from the models."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.errors import RequestError
from tasks.webshop.catalogue import Catalogue
from tasks.webshop.draw import draw_goal
from tasks.webshop.environment import purchase_facts
from tasks.webshop.pages import ObservationMode
from tasks.webshop.session import MAX_ARGUMENT, Outcome, Session, SessionSettings, parse_action
from tasks.webshop.settings import ServerSettings
from tasks.webshop.store import SessionStore, StoreFull

LONGEST_ACTION = MAX_ARGUMENT + 100


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _whole(value: Any) -> Any:
    """JSON knows one kind of numbers: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class NewSession(_Body):
    """What a new session is about: a goal by its number, or one drawn by a seed, or any."""

    goal: Annotated[int | None, BeforeValidator(_whole)] = Field(default=None, ge=0, lt=2**31)
    seed: Annotated[int | None, BeforeValidator(_whole)] = Field(default=None, ge=0, lt=2**64)
    observation: ObservationMode = "text"


class Step(_Body):
    """One action, such as ``search[blue shirt]`` or ``click[buy now]``."""

    action: str = Field(min_length=1, max_length=LONGEST_ACTION)


class ApiError(Exception):
    """An answer with an error status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(content: Any, status: int = 200) -> Response:
    """JSON; lone surrogates are escaped."""
    return Response(json.dumps(content), status, media_type="application/json")


def _state(session: Session) -> dict[str, Any]:
    return {
        "observation": session.observation(),
        "available": {"has_search_bar": session.has_search_bar, "clickables": session.clickables()},
        "admissible": session.admissible(),
    }


class Api:
    """The endpoints over one catalogue and store."""

    def __init__(self, catalogue: Catalogue, settings: ServerSettings, store: SessionStore) -> None:
        self._catalogue, self._settings, self._store = catalogue, settings, store
        self._document = openapi(catalogue.goal_count(settings.goals))

    def routes(self) -> list[Route]:
        return [
            Route("/api/health", self._answering(self.health), methods=["GET"]),
            Route("/api/sessions", self._answering(self.create), methods=["POST"]),
            Route("/api/sessions/{key}", self._answering(self.one), methods=["GET", "DELETE"]),
            Route("/api/sessions/{key}/step", self._answering(self.step), methods=["POST"]),
            Route("/openapi.json", self._answering(self.document), methods=["GET"]),
        ]

    @staticmethod
    def _answering(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        """Errors become JSON with a sentence."""

        async def handle(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ApiError as error:
                return answer({"error": str(error)}, error.status)
            except StoreFull as error:
                return answer({"error": str(error)}, 503)

        return handle

    async def _body(self, request: Request, model: type[_Body]) -> Any:
        raw = await request.body()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ApiError(400, f"body: byte {error.start} is not UTF-8; accepted: JSON in UTF-8") from None
        try:
            value = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"body: not valid JSON ({error})") from None
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise ApiError(422, f"{where}: {first['msg']}") from None

    def _session(self, request: Request) -> tuple[str, Session]:
        key = request.path_params["key"]
        session = self._store.get(key)
        if session is None:
            raise ApiError(
                404, "there is no such session, or its time is over; accepted: one from POST /api/sessions"
            )
        return key, session

    async def health(self, request: Request) -> Response:
        """What is served."""
        s = self._settings
        return answer(
            {
                "products": len(self._catalogue),
                "catalogue_sha256": self._catalogue.sha256(),
                "goals": s.goals,
                "goal_count": self._catalogue.goal_count(s.goals),
                "compat": s.compat,
                "results_per_page": s.results_per_page,
                "sessions": len(self._store),
            }
        )

    async def create(self, request: Request) -> Response:
        body: NewSession = await self._body(request, NewSession)
        self._store.make_room()
        s = self._settings
        seed = secrets.randbits(63) if body.seed is None else body.seed
        try:
            index = draw_goal(self._catalogue, s.goals, s.compat, seed) if body.goal is None else body.goal
            goal = self._catalogue.goal(index, s.goals, s.compat)
        except RequestError as error:
            raise ApiError(422, str(error)) from None
        settings = SessionSettings(body.observation, s.compat, s.show_attributes, s.results_per_page)
        key = self._store.new_key()
        session = Session(self._catalogue, goal, settings, key, seed)
        self._store.add(key, session)
        state = {"session": key, "instruction": goal.instruction, **_state(session)}
        session.rest()
        return answer(state, 201)

    async def one(self, request: Request) -> Response:
        return await (self.close(request) if request.method == "DELETE" else self.look(request))

    async def look(self, request: Request) -> Response:
        _, session = self._session(request)
        state = _state(session)
        session.rest()
        return answer(state)

    async def step(self, request: Request) -> Response:
        _, session = self._session(request)
        body: Step = await self._body(request, Step)
        outcome: Outcome = session.act(parse_action(body.action))
        info: Mapping[str, Any] = purchase_facts(session) if outcome.done else {}
        state = {
            **_state(session),
            "reward": outcome.reward,
            "done": outcome.done,
            "invalid": bool(outcome.invalid),
            "reason": outcome.invalid,
            "info": info,
        }
        session.rest()
        return answer(state)

    async def close(self, request: Request) -> Response:
        key, _ = self._session(request)
        self._store.drop(key)
        return Response(status_code=204)

    async def document(self, request: Request) -> Response:
        return answer(self._document)


def openapi(goal_count: int) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the endpoints, for a catalogue of so many goals."""
    state = {
        "observation": {"type": "string"},
        "available": {
            "type": "object",
            "required": ["has_search_bar", "clickables"],
            "properties": {
                "has_search_bar": {"type": "boolean"},
                "clickables": {"type": "array", "items": {"type": "string"}},
            },
        },
        "admissible": {"type": "array", "items": {"type": "string"}},
    }
    opened = {"session": {"type": "string"}, "instruction": {"type": "string"}}
    stepped = {
        "reward": {"type": "number", "minimum": 0, "maximum": 1},
        "done": {"type": "boolean"},
        "invalid": {"type": "boolean"},
        "reason": {"type": "string"},
        "info": {"type": "object"},
    }
    served = {
        "products": {"type": "integer"},
        "catalogue_sha256": {"type": "string"},
        "goals": {"enum": ["synthetic", "human"]},
        "goal_count": {"type": "integer"},
        "compat": {"enum": ["fixed", "original"]},
        "results_per_page": {"type": "integer"},
        "sessions": {"type": "integer"},
    }

    def reply(properties: Mapping[str, Any], description: str) -> dict[str, Any]:
        schema = {"type": "object", "required": sorted(properties), "properties": dict(properties)}
        return {"description": description, "content": {"application/json": {"schema": schema}}}

    def body(model: type[_Body], required: bool) -> dict[str, Any]:
        schema = model.model_json_schema()
        if model is NewSession:
            schema["properties"]["goal"]["anyOf"] = [
                {"type": "integer", "minimum": 0, "maximum": goal_count - 1},
                {"type": "null"},
            ]
        return {"required": required, "content": {"application/json": {"schema": schema}}}

    failed = {"error": {"type": "string"}}
    errors = {
        "400": reply(failed, "The request cannot be read."),
        "404": reply(failed, "There is no such session."),
        "413": reply(failed, "The body is too long."),
        "422": reply(failed, "A value is not accepted."),
        "503": reply(failed, "Too many sessions are open."),
    }
    key = [{"name": "key", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}]

    def operation(name: str, replies: Mapping[str, Any], *codes: str, **more: Any) -> dict[str, Any]:
        return {
            "operationId": name,
            "responses": {**replies, **{code: errors[code] for code in codes}},
            **more,
        }

    return {
        "openapi": "3.1.0",
        "info": {"title": "WebShop", "version": "1"},
        "paths": {
            "/api/health": {"get": operation("health", {"200": reply(served, "What is served.")}, "400")},
            "/api/sessions": {
                "post": operation(
                    "create",
                    {"201": reply({**opened, **state}, "A new session.")},
                    *("400", "413", "422", "503"),
                    requestBody=body(NewSession, False),
                )
            },
            "/api/sessions/{key}": {
                "parameters": key,
                "get": operation("look", {"200": reply(state, "The present page.")}, "400", "404"),
                "delete": operation("close", {"204": {"description": "It is closed."}}, "400", "404"),
            },
            "/api/sessions/{key}/step": {
                "parameters": key,
                "post": operation(
                    "step",
                    {"200": reply({**state, **stepped}, "What came of it.")},
                    *("400", "404", "413", "422"),
                    requestBody=body(Step, True),
                ),
            },
        },
    }
