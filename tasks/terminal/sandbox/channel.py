"""The harness's end of a sandbox: requests to the guest over a socket, one at a time, each with a nonce and a deadline."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import FileTree
from tasks.terminal.sandbox import protocol
from tasks.terminal.sandbox.interface import CommandResult, SnapshotTooLarge, VerifyResult

GRACE_S = 5.0
"""How much longer than a command's own limit the harness waits: the guest needs up to 2 s to kill what survives."""


class Machine(Protocol):
    """What holds the guest: it can be ended, and knows whether a limit was hit since it was last asked."""

    def limit_hit(self) -> str | None: ...
    async def end(self) -> None: ...


class Channel:
    """Frames over a connected, non-blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._broken: str | None = None

    async def request(self, kind: bytes, payload: bytes, timeout_s: float) -> bytes:
        """The reply's payload. Raises GuestRefused when the guest says why not, InfrastructureError when it is gone, late
        or unintelligible; after the latter the channel is not used again."""
        if self._broken:
            raise InfrastructureError(self._broken)
        self._broken = "the sandbox is gone: an earlier request to it was abandoned"
        nonce = os.urandom(8)
        try:
            async with asyncio.timeout(timeout_s):
                answer, content = await self._exchange(kind, nonce, payload)
        except TimeoutError:
            self._broken = f"the sandbox did not answer within {timeout_s:g} s"
            raise InfrastructureError(self._broken) from None
        except OSError as error:
            self._broken = f"the sandbox is gone: {error}"
            raise InfrastructureError(self._broken) from error
        except InfrastructureError as error:
            self._broken = str(error)
            raise
        self._broken = None
        if answer == b"E":
            raise GuestRefused(content.decode(errors="replace").strip())
        return content

    async def _exchange(self, kind: bytes, nonce: bytes, payload: bytes) -> tuple[bytes, bytes]:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._socket, protocol.frame(kind, nonce, payload))
        except ConnectionError:
            raise InfrastructureError(_gone(await self._rest(bytearray()))) from None
        data = bytearray()
        while len(data) < protocol.HEADER.size:
            data += await self._receive(data)
        answer, echoed, length = protocol.HEADER.unpack_from(data)
        if echoed != nonce or answer not in (kind, b"E"):
            raise InfrastructureError(f"the sandbox failed: {await self._rest(data)}")
        whole = protocol.HEADER.size + length
        while len(data) < whole:
            data += await self._receive(data)
        return answer, bytes(data[protocol.HEADER.size :])

    async def _receive(self, data: bytearray) -> bytes:
        chunk = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 18)
        if not chunk:
            raise InfrastructureError(_gone(data.decode(errors="replace").strip()))
        return chunk

    async def _rest(self, data: bytearray) -> str:
        """What came instead of a frame: the error message of the program that should have started the guest."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(0.5):
                while len(data) < 4096 and (chunk := await loop.sock_recv(self._socket, 4096)):
                    data += chunk
        except (TimeoutError, OSError):
            pass
        return data.decode(errors="replace").strip()

    def close(self, reason: str = "the sandbox is closed") -> None:
        self._broken = reason
        self._socket.close()


def _gone(last_words: str) -> str:
    return f"the sandbox is gone{': ' if last_words else ''}{last_words}"


class GuestRefused(Exception):
    """The guest answered with a sentence instead of a result."""


class GuestSandbox:
    """A sandbox (see ``interface.Sandbox``) on a guest that is ready for requests."""

    def __init__(self, channel: Channel, machine: Machine) -> None:
        self._channel = channel
        self._machine = machine
        self._ended: asyncio.Future[None] | None = None

    async def run(self, command: str | bytes, timeout_s: float) -> CommandResult:
        reply = await self._ask(b"R", protocol.run_payload(command, timeout_s), timeout_s + GRACE_S)
        result = protocol.command_result(reply)
        limit = self._machine.limit_hit()  # asked every time, so that it is this command's
        return replace(result, limit=limit) if limit and not result.limit else result

    async def write(self, tree: FileTree) -> None:
        try:
            await self._channel.request(b"W", protocol.tree_payload(tree), GRACE_S)
        except GuestRefused as refusal:
            raise EnvironmentFault(f"the task's files cannot be written: {refusal}") from None

    async def freeze(self) -> None:
        await self._ask(b"F", b"", GRACE_S)

    async def snapshot(
        self,
        roots: Sequence[str],
        max_entries: int = 10_000,
        max_bytes_per_file: int = 1 << 20,
        max_total_bytes: int = 16 << 20,
    ) -> FileTree:
        payload = protocol.snapshot_payload(roots, max_entries, max_bytes_per_file, max_total_bytes)
        try:
            return protocol.snapshot_tree(await self._channel.request(b"S", payload, 4 * GRACE_S))
        except GuestRefused as refusal:
            if str(refusal) == "too many files":
                raise SnapshotTooLarge(f"more than {max_entries} files under {', '.join(roots)}") from None
            raise InfrastructureError(f"the sandbox refused: {refusal}") from None

    async def verify(self, files: FileTree, argv: Sequence[str], timeout_s: float) -> VerifyResult:
        for path in files:
            if not path.startswith("/tests/"):
                raise EnvironmentFault(f"test file {path!r}: tests belong under /tests")
        payload = protocol.verify_payload(files, argv, timeout_s)
        return protocol.verify_result(await self._ask(b"V", payload, timeout_s + GRACE_S))

    async def close(self) -> None:
        if self._ended is None:
            self._channel.close()
            self._ended = asyncio.ensure_future(self._machine.end())
        await asyncio.shield(self._ended)

    async def _ask(self, kind: bytes, payload: bytes, timeout_s: float) -> bytes:
        try:
            return await self._channel.request(kind, payload, timeout_s)
        except GuestRefused as refusal:
            raise InfrastructureError(f"the sandbox refused: {refusal}") from None
