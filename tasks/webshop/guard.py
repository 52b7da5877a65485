"""What every request passes: its Host, its path's encoding and its body's length are checked, and answers carry safe headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)


def host_name(value: str) -> str:
    """The name in a Host header, without its port."""
    if value.startswith("["):
        return value.partition("]")[0] + "]"
    return value.partition(":")[0].lower()


class Guard:
    """Pure ASGI, around the application."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], body_limit: int) -> None:
        self._app, self._hosts, self._limit = app, frozenset(hosts), body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or host_name(hosts[0].decode("latin-1")) not in self._hosts:
            await _refuse(send, 400, f"Host: accepted: {', '.join(sorted(self._hosts))}")
            return
        try:
            unquote_to_bytes(scope.get("raw_path") or b"").decode("utf-8")
        except UnicodeDecodeError:
            await _refuse(send, 400, "path: holds bytes that are not UTF-8")
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._app(scope, self._bounded(receive), sending)

    def _bounded(self, receive: Receive) -> Callable[[], Any]:
        read = 0

        async def receiving() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise HTTPException(413, f"body: accepted: {self._limit} bytes at most")
            return message

        return receiving


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *_HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
