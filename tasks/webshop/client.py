"""The WebShop environment against a server: the same observations as in process, over one connection per environment."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.errors import EnvironmentFault, InfrastructureError, RequestError
from harness.interfaces import Action, Observation, StepResult, Task
from tasks.webshop.session import SessionSettings
from tasks.webshop.task import WebShopTask

TIMEOUT_S = 60.0


class Connection:
    """Blocking HTTP to one server, kept alive between calls. Not to be shared between threads."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise RequestError(f"suite.server = {url!r}; accepted: such as http://127.0.0.1:3000")
        self._url = url
        self._http = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT_S)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the answer. Raises InfrastructureError where there is none, or it is an error."""
        data = None if body is None else json.dumps(body).encode()
        try:
            self._http.request(method, path, data, {"content-type": "application/json"})
            response = self._http.getresponse()
            text = response.read()
            value = json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._http.close()
            raise InfrastructureError(f"{self._url}{path}: no answer ({error!r})") from error
        if response.status >= 400:
            sentence = value.get("error") if isinstance(value, dict) else "not an answer of this server"
            raise InfrastructureError(f"{self._url}{path}: {response.status}: {sentence}")
        return value

    def close(self) -> None:
        self._http.close()


class WebShopClientEnvironment:
    """Implements ``harness.interfaces.Environment``. The server must hold the catalogue that the tasks are of: see
    :func:`check_server`."""

    def __init__(self, url: str, settings: SessionSettings) -> None:
        self._connection = Connection(url)
        self._settings = settings
        self._session: str | None = None
        self._last = Observation("")

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(self._connection.call, method, path, body)

    def _observe(self, state: Mapping[str, Any]) -> Observation:
        self._last = Observation(state["observation"], tuple(state["admissible"]))
        return self._last

    async def reset(self, task: Task, seed: int) -> Observation:
        """Open a session for the task's goal; an earlier one is closed."""
        if not isinstance(task, WebShopTask) or task.compat != self._settings.compat:
            raise EnvironmentFault(
                f"task {task.task_id}: not a WebShop task of compat {self._settings.compat}"
            )
        await self._drop()
        wanted = {"goal": task.goal.index, "seed": seed, "observation": self._settings.mode}
        state = await self._call("POST", "/api/sessions", wanted)
        self._session = state["session"]
        if state["instruction"] != task.goal.instruction:
            raise EnvironmentFault(f"task {task.task_id}: the server's goal {task.goal.index} is another one")
        return self._observe(state)

    async def step(self, action: Action) -> StepResult:
        known = action.kind in ("search", "click")
        text = f"{action.kind}[{action.argument}]" if known else "invalid"
        state = await self._call("POST", f"/api/sessions/{self._live()}/step", {"action": text})
        info = {"reason": state["reason"]} if state["invalid"] else {}
        return StepResult(
            self._observe(state), state["reward"], state["done"], state["invalid"], {**info, **state["info"]}
        )

    async def truncate(self) -> StepResult:
        """Without a purchase there is no reward."""
        self._live()
        return StepResult(self._last, 0.0, True, info={"success": False})

    async def close(self) -> None:
        # The server drops what is not closed by itself.
        with contextlib.suppress(InfrastructureError):
            await self._drop()
        self._connection.close()

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await self._call("DELETE", f"/api/sessions/{session}")

    def _live(self) -> str:
        if self._session is None:
            raise InfrastructureError("this environment has no open session")
        return self._session


def check_server(url: str, expected: Mapping[str, Any]) -> None:
    """Raises RequestError where the server serves something else, InfrastructureError where it does not answer.

    expected: some of the fields of ``/api/health``.
    """
    connection = Connection(url)
    try:
        served = connection.call("GET", "/api/health")
    finally:
        connection.close()
    for field, value in expected.items():
        if served.get(field) != value:
            raise RequestError(
                f"suite.server = {url!r}: it serves {field} = {served.get(field)!r}; accepted: {value!r}"
            )
