"""Endless Terminals' native layout: ``task.json``, ``container.def``, two pytest files, and perhaps recorded solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.errors import RequestError
from tasks.terminal.agent import parse_endless
from tasks.terminal.filetree import text_file
from tasks.terminal.formats.foldertask import (
    FolderTask,
    PhaseLimits,
    Solution,
    Verifier,
    folder_fingerprint,
)
from tasks.terminal.formats.reading import json_of, text_of, validated

MARKERS = ("task.json", "container.def", "test_final_state.py")
EPISODE_S = 600.0
"""Seconds of an episode, as Endless Terminals limits it."""


class _TaskFile(BaseModel):
    model_config = ConfigDict(strict=True)

    description: str = Field(min_length=1)
    truth: str | None = None
    name: str | None = None


class _Message(BaseModel):
    role: str
    content: Any


class _Attempt(BaseModel):
    success: bool
    messages: list[_Message] = []


class _Summary(BaseModel):
    results: list[_Attempt] = []


def read_endless(folder: Path) -> FolderTask:
    """Raises RequestError for a missing or malformed file."""
    described = validated(_TaskFile, json_of(folder, "task.json"), str(folder / "task.json"))
    return FolderTask(
        task_id=folder.name,
        family="endless",
        difficulty=0,
        instruction=described.description,
        layout="endless",
        folder=folder,
        build_file="container.def",
        build_text=text_of(folder, "container.def"),
        context=folder,
        tests={"/tests/test_final_state.py": text_file(text_of(folder, "test_final_state.py"))},
        verifier=Verifier("pytest", ("/tests/test_final_state.py",)),
        limits=PhaseLimits(agent_s=EPISODE_S),
        fingerprint=folder_fingerprint(folder),
        initial_tests={"/tests/test_initial_state.py": text_file(text_of(folder, "test_initial_state.py"))},
        solution=_recorded_solution(folder),
        truth=described.truth,
    )


def _recorded_solution(folder: Path) -> Solution | None:
    """The commands of the first successful attempt on record, read as Endless Terminals read them."""
    for path in sorted((folder / "solutions").glob("*_summary.json")):
        name = path.relative_to(folder).as_posix()
        raw = json_of(folder, name)
        if not isinstance(raw, dict):
            raise RequestError(f"{path}: content = {type(raw).__name__}; accepted: an object with results")
        for attempt in validated(_Summary, raw, str(path)).results:
            if attempt.success:
                replies = [m.content for m in attempt.messages if m.role == "assistant"]
                actions = [parse_endless(reply) for reply in replies if isinstance(reply, str)]
                commands = tuple(action.argument for action in actions if action.kind == "command")
                if commands:
                    return Solution(commands)
    return None
