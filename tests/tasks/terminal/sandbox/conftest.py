"""Sandboxes for synchronous tests: each test gets its own, and may start more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.filetree import FileTree
from tasks.terminal.sandbox.interface import (
    CommandResult,
    Sandbox,
    SandboxBackend,
    SandboxLimits,
    VerifyResult,
)


class Shell:
    """A sandbox driven from synchronous code."""

    def __init__(self, runner: asyncio.Runner, sandbox: Sandbox) -> None:
        self.runner, self.sandbox = runner, sandbox

    def run(self, command: str | bytes, timeout_s: float = 10) -> CommandResult:
        return self.runner.run(self.sandbox.run(command, timeout_s))

    def output(self, command: str | bytes, timeout_s: float = 10) -> str:
        """Of a command that succeeds."""
        result = self.run(command, timeout_s)
        assert result.exit_code == 0, result
        return result.output

    def write(self, tree: FileTree) -> None:
        self.runner.run(self.sandbox.write(tree))

    def freeze(self) -> None:
        self.runner.run(self.sandbox.freeze())

    def snapshot(self, *roots: str, **limits: int) -> FileTree:
        return self.runner.run(self.sandbox.snapshot(roots, **limits))

    def verify(self, files: FileTree, argv: Sequence[str], timeout_s: float = 10) -> VerifyResult:
        return self.runner.run(self.sandbox.verify(files, argv, timeout_s))

    def close(self) -> None:
        self.runner.run(self.sandbox.close())


class Shells:
    """Starts sandboxes on one event loop."""

    def __init__(self, backend: SandboxBackend) -> None:
        self.backend, self.runner, self._started = backend, asyncio.Runner(), list[Shell]()

    def start(self, **limits: int) -> Shell:
        shell = Shell(self.runner, self.runner.run(self.backend.start(SandboxLimits(**limits))))
        self._started.append(shell)
        return shell

    def close(self) -> None:
        for shell in self._started:
            shell.close()
        self.runner.close()


@pytest.fixture(scope="session")
def backend() -> Iterator[SandboxBackend]:
    from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend

    try:
        backend = BubblewrapBackend()
    except InfrastructureError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()


@pytest.fixture
def shells(backend: SandboxBackend) -> Iterator[Shells]:
    shells = Shells(backend)
    yield shells
    shells.close()


@pytest.fixture
def shell(shells: Shells) -> Shell:
    return shells.start()
