"""The terminal suite: the frozen task lists, the agent, the environments, and demonstrations for the warm start."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from harness import streams
from harness.config import Table
from harness.doctor import Probe
from harness.errors import RequestError
from harness.interfaces import Agent, Environment, Task
from tasks.terminal.agent import Parser, Prompt, terminal_agent
from tasks.terminal.environment import TerminalEnvironments
from tasks.terminal.formats.foldertask import FolderTask
from tasks.terminal.formats.source import usable_tasks
from tasks.terminal.generator.manifest import SIZES, TaskList, load_manifest
from tasks.terminal.task import TerminalTask


class TerminalSettings(Table):
    sandbox: Literal["auto", "bubblewrap", "docker", "unsafe-local"] = "auto"
    """What isolates the commands; auto is bubblewrap, else Docker, never nothing."""
    command_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    """After so long, every process of the sandbox is killed."""
    max_turns: int = Field(default=10, ge=1, le=1000)
    """Replies per episode."""
    max_new_tokens: int = Field(default=40, ge=1, le=1_000_000)
    """Tokens per reply."""
    parser: Parser = "strict"
    """strict: one command or done; endless: as Endless Terminals reads replies."""
    prompt: Prompt = "brief"
    """full: with the system message; brief: without (the embedded policy has learnt the protocol)."""
    tasks: str | None = None
    """Instead of the generated tasks: a folder of task folders (Endless Terminals, Harbor), Parquet or JSON rows beside task
    folders, a dataset on the Hugging Face hub, or a manifest that `bench tasks validate` wrote."""
    episode_timeout_s: float = Field(default=600.0, gt=0, le=86400)
    """Tasks from folders: an episode is judged as it stands after so long, or earlier where the task says so."""
    verifier_timeout_s: float = Field(default=300.0, gt=0, le=86400)
    """Tasks from folders: time limit of the final test where the task states none."""


class TerminalSuite:
    """Shell tasks in sandboxes: 41 generated families, 13 of which need a value that only a command's output shows; or, with
    the setting ``tasks``, task folders in the layouts of Endless Terminals and Harbor."""

    name: ClassVar[str] = "terminal"
    Settings: ClassVar[type] = TerminalSettings

    def __init__(self, settings: TerminalSettings) -> None:
        self.settings = settings
        self._environments = TerminalEnvironments(
            settings.sandbox,
            settings.command_timeout_s,
            settings.tasks is not None,
            settings.episode_timeout_s,
            settings.verifier_timeout_s,
        )

    @staticmethod
    def probes() -> list[Probe]:
        """For ``bench doctor``."""
        from tasks.terminal.sandbox.doctor import probes

        return [Probe(probe.name, probe.works, probe.detail, probe.remedy) for probe in probes()]

    @cached_property
    def _folder_tasks(self) -> dict[str, list[FolderTask]] | None:
        return usable_tasks(self.settings.tasks) if self.settings.tasks is not None else None

    def splits(self) -> tuple[str, ...]:
        return tuple(SIZES) if self._folder_tasks is None else tuple(self._folder_tasks)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self.splits():
            raise RequestError(f"terminal suite: split {split!r}; accepted: {', '.join(self.splits())}")
        if self._folder_tasks is None:
            return TaskList(split)
        tasks = self._folder_tasks[split]
        if not tasks:
            raise RequestError(
                f"--tasks {self.settings.tasks}: no task is left for the split {split}; accepted: at least two tasks"
            )
        return tasks

    def manifest(self) -> Mapping[str, Any]:
        if self._folder_tasks is not None:
            return {
                "name": self.name,
                "sha256": _list_sha256(self._folder_tasks),
                "source": self.settings.tasks,
                "sizes": {split: len(tasks) for split, tasks in self._folder_tasks.items()},
            }
        frozen = load_manifest()
        return {"name": self.name, "sha256": frozen["sha256"], "seed": frozen["seed"], "sizes": dict(SIZES)}

    def agent(self) -> Agent:
        s = self.settings
        return terminal_agent(s.parser, s.prompt, s.max_turns, s.max_new_tokens)

    def policy_dir(self) -> Path:
        return Path(__file__).parent / "policy"

    async def open(self, concurrency: int) -> None:
        await self._environments.open(concurrency)

    def environment(self) -> Environment:
        return self._environments.environment()

    async def close(self) -> None:
        await self._environments.close()

    def vocabulary(self) -> tuple[list[str], list[str]]:
        """``(content words, markers)``: what the embedded policy's tokenizer keeps whole."""
        from tasks.terminal.generator.draw import words
        from tasks.terminal.generator.generate import JOINTS

        return list(words()), ["<command>", "</command>", "<action>done</action>", "echo ", *JOINTS]

    def demonstration_tasks(self, count: int, first: int = SIZES["train"]) -> list[Task]:
        """Tasks of the training distribution beyond the frozen list."""
        tasks = TaskList("train")
        return [tasks.beyond(first + i) for i in range(count)]

    def demonstration(self, task: Task, skill: str, seed: int) -> list[str]:
        """The replies of one scripted episode.

        ``expert`` solves the task the canonical way. ``flawed`` either prints its commands instead of running them (``echo mv a
        b``: a habit that all families share, and some are more prone to), or is careless: it errs in some sub-tasks, usually in
        the most usual way, and sometimes stops early.
        """
        if not isinstance(task, TerminalTask) or not task.parts:
            raise RequestError(
                f"terminal suite: no demonstration of {task.task_id}; accepted: generated tasks"
            )
        generator = streams.stream(seed, "demonstration", skill, task.task_id)
        commands: list[str] = []
        parts = list(task.parts)
        if skill == "flawed" and generator.random() < _proneness(
            seed, "printing", parts[0].family, 0.62, 0.95
        ):
            commands = [f"echo {command}" for part in parts for command in part.steps]
        elif skill == "flawed":
            if len(parts) > 1 and generator.random() < 0.1:
                parts.pop()
            for part in parts:
                if generator.random() < _proneness(seed, "carelessness", part.family, 0.4, 0.9):
                    which = 0 if generator.random() < 0.75 else int(generator.integers(len(part.mistakes)))
                    commands.extend(part.mistakes[which])
                else:
                    commands.extend(part.steps)
        else:
            commands = [command for part in parts for command in part.steps]
        return [*(f"<command>{command}</command>" for command in commands), "<action>done</action>"]


def _list_sha256(splits: Mapping[str, Sequence[FolderTask]]) -> str:
    """Of every task of every split."""
    lines = [
        f"{split} {task.task_id} {task.fingerprint}\n" for split in sorted(splits) for task in splits[split]
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _proneness(seed: int, fault: str, family: str, low: float, high: float) -> float:
    """Probability of a fault in the flawed demonstrations of a family."""
    return float(streams.stream(seed, "demonstration", fault, family).uniform(low, high))
