"""Machines of folder tasks: the layer of a task, built once, and sandboxes that start from it."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from dataclasses import replace
from pathlib import Path

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import Entry
from tasks.terminal.formats.build import build, tools_sha256
from tasks.terminal.formats.context import Context
from tasks.terminal.formats.definition import parse_definition
from tasks.terminal.formats.dockerfile import parse_dockerfile
from tasks.terminal.formats.foldertask import FolderTask, UnusableTask
from tasks.terminal.formats.layers import Layer, LayerCache, layer_key, layer_of
from tasks.terminal.formats.plan import BuildFileError, Plan
from tasks.terminal.formats.tools import sandbox_python, verifier_folder
from tasks.terminal.sandbox.interface import Root, Sandbox, SandboxBackend, SandboxLimits

ENTRY_S = 30.0
_ARCHIVE = "/tmp/.layer.tar"


def plan_of(task: FolderTask) -> Plan:
    """Raises UnusableTask with file and line of an instruction that is not known."""
    context = Context(task.context)
    try:
        if task.layout == "endless":
            return parse_definition(task.build_text, context.copy)
        return parse_dockerfile(task.build_text, context)
    except BuildFileError as error:
        raise UnusableTask(task.task_id, task.build_file, error.line, error.reason) from None


def installed_packages(status: Path = Path("/var/lib/dpkg/status")) -> frozenset[str]:
    """The Debian packages of this machine, whose ``/usr`` is the base; empty where it is no Debian."""
    try:
        text = status.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    blocks = (block.split("\n") for block in text.split("\n\n"))
    return frozenset(
        lines[0].removeprefix("Package: ")
        for lines in blocks
        if lines[0].startswith("Package: ") and "Status: install ok installed" in lines
    )


class Machines:
    """Starts a task's sandboxes on a backend; builds layers that are not in the cache."""

    def __init__(self, backend: SandboxBackend, cache: LayerCache | None = None) -> None:
        self._backend = backend
        self._cache = cache or LayerCache()
        self._packages = installed_packages()
        self._building: dict[str, asyncio.Lock] = {}

    async def layer(self, task: FolderTask) -> tuple[Plan, Layer]:
        """Raises UnusableTask where the task cannot be built."""
        plan = await asyncio.to_thread(plan_of, task)
        key = self.key(task, plan)
        async with self._building.setdefault(key, asyncio.Lock()):
            layer = await asyncio.to_thread(self._cache.get, key)
            if layer is None:
                layer = await self._make(task, plan, key)
        return plan, layer

    async def _make(self, task: FolderTask, plan: Plan, key: str) -> Layer:
        lock = self._cache.locked(key)
        await asyncio.to_thread(lock.__enter__)
        try:
            layer = await asyncio.to_thread(self._cache.get, key)
            if layer is None:
                try:
                    built = await build(
                        self._backend, plan, self._packages, task.limits.build_s, sandbox_python()
                    )
                    layer = layer_of(built)
                except BuildFileError as error:
                    raise UnusableTask(task.task_id, task.build_file, error.line, error.reason) from None
                await asyncio.to_thread(self._cache.put, key, layer)
        finally:
            lock.__exit__(None, None, None)
        return layer

    def key(self, task: FolderTask, plan: Plan) -> str:
        """A layer is a function of the steps (with the content of copied files) and of the base."""
        steps = hashlib.sha256(repr(plan.steps).encode()).hexdigest()
        base = hashlib.sha256("\n".join(sorted(self._packages)).encode()).hexdigest()
        return layer_key(
            {"steps": steps, "base": base, "backend": self._backend.name, "tools": tools_sha256()}
        )

    async def start(
        self, task: FolderTask, limits: SandboxLimits, extra: tuple[str, ...] = ()
    ) -> tuple[Sandbox, Plan]:
        """A sandbox in the task's initial state, its shell in the task's folder. ``extra``: more folders of the agent's.

        Raises EnvironmentFault for a task that cannot be built, InfrastructureError where the sandbox fails."""
        try:
            plan, layer = await self.layer(task)
        except UnusableTask as error:
            raise EnvironmentFault(f"{error}; `bench tasks validate` lists the usable tasks") from None
        folders = (*layer.writable, *extra, *(("/logs",) if task.verifier.kind == "script" else ()))
        root = Root(tuple(sorted(set(folders))), layer.files, layer.links, tools=verifier_folder())
        sandbox = await self._backend.start(_for_task(limits, task), root)
        try:
            archive = Entry("file", 0o600, content=layer.archive, size=len(layer.archive))
            await sandbox.write({_ARCHIVE: archive})
            await self._must(
                sandbox, f"\\builtin cd / && tar -xpf {_ARCHIVE} --no-same-owner && rm {_ARCHIVE}"
            )
            await self._enter(sandbox, plan)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox, plan

    async def _enter(self, sandbox: Sandbox, plan: Plan) -> None:
        """Set up the agent's shell. An error of the task's own ``%environment`` is the task's to have."""
        exports = [f"export {name}={shlex.quote(value)}" for name, value in plan.environment.items()]
        lines = [*exports, f"cd {shlex.quote(plan.workdir)} 2>/dev/null || cd /"]
        await self._must(sandbox, "\n".join(lines))
        if plan.entry:
            await sandbox.run(plan.entry, ENTRY_S)

    @staticmethod
    async def _must(sandbox: Sandbox, command: str) -> None:
        result = await sandbox.run(command, ENTRY_S)
        if result.exit_code != 0:
            raise InfrastructureError(f"a task's layer cannot be unpacked: {result.output.strip()[-300:]}")


def _for_task(limits: SandboxLimits, task: FolderTask) -> SandboxLimits:
    """The task's own memory and storage, where it states them. Storage is memory here, and bounded by it."""
    memory = task.limits.memory_mb or limits.memory_mb
    disk = min(task.limits.storage_mb or limits.disk_mb, memory)
    return replace(limits, memory_mb=memory, disk_mb=disk, file_size_mb=max(limits.file_size_mb, disk))
