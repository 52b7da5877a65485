"""Harbor's layout: ``task.toml``, ``instruction.md``, ``environment/Dockerfile``, ``tests/``, perhaps ``solution/solve.sh``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.errors import RequestError
from tasks.terminal.filetree import Entry, FileTree
from tasks.terminal.formats.foldertask import (
    FolderTask,
    PhaseLimits,
    Solution,
    Verifier,
    folder_fingerprint,
)
from tasks.terminal.formats.reading import file_entry, text_of, tree_of, validated

MARKERS = ("task.toml", "instruction.md")
SOLUTION = "/solution"
_DIFFICULTIES = {"easy": 1, "medium": 2, "hard": 3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])i?B?$", re.IGNORECASE)


class _Phase(BaseModel):
    timeout_sec: float | None = Field(default=None, gt=0)
    env: dict[str, str] = {}


class _Environment(BaseModel):
    """``memory`` and ``storage`` ("2G") are how older files state the megabytes."""

    build_timeout_sec: float = Field(default=600.0, gt=0)
    cpus: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    memory: int | None = None
    storage: int | None = None

    @field_validator("memory", "storage", mode="before")
    @classmethod
    def _megabytes(cls, value: Any) -> Any:
        match = _SIZE.match(value.strip()) if isinstance(value, str) else None
        if isinstance(value, str) and not match:
            raise ValueError('not a size; accepted: a number and a unit, such as "2G"')
        if not match:
            return value
        return max(
            1, round(float(match[1]) * {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20}[match[2].upper()])
        )


class _Metadata(BaseModel):
    model_config = ConfigDict(extra="allow")

    difficulty: str | None = None
    category: str | None = None


class _TaskFile(BaseModel):
    """What is read of ``task.toml``; further keys are other people's."""

    metadata: _Metadata = _Metadata()
    verifier: _Phase = _Phase()
    agent: _Phase = _Phase()
    environment: _Environment = _Environment()


def read_harbor(folder: Path) -> FolderTask:
    """Raises RequestError for a missing or malformed file."""
    source = str(folder / "task.toml")
    try:
        raw = tomllib.loads(text_of(folder, "task.toml"))
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"{source}: not valid TOML: {error}") from None
    settings = validated(_TaskFile, raw, source)
    instruction = text_of(folder, "instruction.md").strip("\n")
    if not instruction.strip():
        raise RequestError(f"{folder / 'instruction.md'}: is empty; accepted: what the agent shall do")
    tests = _tests(folder)
    initial = _initial_tests(folder, tests)
    environment = settings.environment
    return FolderTask(
        task_id=folder.name,
        family=settings.metadata.category or "harbor",
        difficulty=_DIFFICULTIES.get((settings.metadata.difficulty or "").lower(), 0),
        instruction=instruction,
        layout="harbor",
        folder=folder,
        build_file="environment/Dockerfile",
        build_text=text_of(folder, "environment/Dockerfile"),
        context=folder / "environment",
        tests={path: entry for path, entry in tests.items() if not path.endswith("/test_initial_state.py")},
        verifier=_verifier(tests, settings.verifier.env, folder),
        limits=PhaseLimits(
            build_s=environment.build_timeout_sec,
            agent_s=settings.agent.timeout_sec,
            verifier_s=settings.verifier.timeout_sec,
            memory_mb=environment.memory_mb or environment.memory,
            storage_mb=environment.storage_mb or environment.storage,
        ),
        fingerprint=folder_fingerprint(folder),
        initial_tests=initial,
        solution=_solution(folder),
    )


def _tests(folder: Path) -> FileTree:
    if not (folder / "tests").is_dir():
        raise RequestError(f"{folder}: tests is missing; accepted: a task folder that has it")
    tests = tree_of(folder / "tests", "/tests")
    if "/tests/test.sh" not in tests and not _pytest_files(tests):
        raise RequestError(f"{folder / 'tests'}: has neither test.sh nor test_*.py; accepted: one of them")
    return tests


def _pytest_files(tests: FileTree) -> tuple[str, ...]:
    names = sorted(path for path in tests if re.fullmatch(r"/tests/test_[^/]*\.py", path))
    return tuple(name for name in names if name != "/tests/test_initial_state.py")


def _initial_tests(folder: Path, tests: FileTree) -> FileTree | None:
    """Conversions of Endless Terminals tasks keep the initial test beside the Dockerfile, or among the tests."""
    beside = folder / "environment" / "test_initial_state.py"
    if beside.is_file():
        return {"/tests/test_initial_state.py": file_entry(beside)}
    among = tests.get("/tests/test_initial_state.py")
    return {"/tests/test_initial_state.py": among} if among else None


def _verifier(tests: FileTree, variables: dict[str, str], folder: Path) -> Verifier:
    pairs = tuple(sorted(variables.items()))
    script = tests.get("/tests/test.sh")
    if script is None:
        return Verifier("pytest", _pytest_files(tests), pairs)
    targets = wrapped_pytest((script.content or b"").decode(errors="replace"))
    if targets and all(target in tests for target in targets):
        return Verifier("pytest", targets, pairs)
    return Verifier("script", (), pairs)


# Statements of the stock test.sh: get uv or pytest, run pytest on files below /tests, write its status as the reward.
_REWARD = re.compile(r"echo [\"']?([01])(?:\.0)?[\"']? *> *[\"']?/logs/verifier/reward\.txt[\"']?")
_STOCK = [
    re.compile(pattern)
    for pattern in (
        r"#.*",
        r"set [-+][a-z]+(?: pipefail)?",
        r"(?:sudo )?(?:DEBIAN_FRONTEND=\S+ )?apt(?:-get)? [^|&]*",
        r"curl [^&]*astral\.sh[^&]*\| *(?:env \S+ )?(?:ba)?sh",
        r"(?:source|\.) \S+",
        r"(?:export )?(?:PATH|PYTHONPATH|PYTHONDONTWRITEBYTECODE)=\S+",
        r"(?:python3? -m )?pip3? install [^|&]*",
        r"mkdir -p [\"']?/logs(?:/verifier)?/?[\"']?",
        r"cd \S+",
        r"uv (?:init|venv|add|pip install)[^|&]*",
        r"\[ \"\$PWD\" = \"/\" \]",
        r"\w+=\$\?",
        r"\[\[? \"?\$(?:\?|\{?\w+\}?)\"? -(?:eq|ne) 0 \]\]?",
        _REWARD.pattern,
        r"echo \"?(?:Error|Warning)[^|&>$`]*",
        r"exit (?:\d|\"?\$\w+\"?|\$\?)",
    )
]
_PYTEST_OPTION = r"(?:-[vqsx]+|-rA|-r\w|--tb=\w+|--color=\w+|--ctrf \S+|-p no:cacheprovider)"
_PYTEST = re.compile(
    r"(?:uvx?(?: run)?(?: (?:--?[a-z-]+(?:[= ][^\s/-]\S*)?))* |python3? -m )?pytest"
    rf"((?: {_PYTEST_OPTION}| /tests/[\w./-]+\.py)+)"
)


def wrapped_pytest(script: str) -> tuple[str, ...]:
    """The files that a ``test.sh`` gives to pytest, when that is all that it does; otherwise nothing."""
    targets: list[str] = []
    statements = _statements(script)
    for statement in statements:
        match = _PYTEST.fullmatch(statement)
        if match and not targets:
            targets = re.findall(r"/tests/[\w./-]+\.py", match[1])
        elif not any(pattern.fullmatch(statement) for pattern in _STOCK):
            return ()
    rewards = [match[1] for statement in statements if (match := _REWARD.fullmatch(statement))]
    failing = any(re.search(r"-ne 0 \]", statement) for statement in statements)
    return tuple(targets) if rewards == (["0", "1"] if failing else ["1", "0"]) else ()


def _statements(script: str) -> list[str]:
    """Simple commands, without the keywords around them; one that was cut inside a string matches nothing later."""
    found: list[str] = []
    for line in re.sub(r"\\\n\s*", " ", script).split("\n"):
        text = " ".join(line.split())
        pieces = [text] if text.startswith("#") else re.split(r" ?;;? ?| && | \|\| ", text)
        for piece in pieces:
            statement = re.sub(r"^(?:(?:if|then|else|fi)(?: |$))+", "", piece).strip()
            if statement:
                found.append(statement)
    return found


def _solution(folder: Path) -> Solution | None:
    """As Harbor's oracle: the folder lies at ``/solution``, ``solve.sh`` is run."""
    if not (folder / "solution" / "solve.sh").is_file():
        return None
    files: dict[str, Entry] = dict(tree_of(folder / "solution", SOLUTION))
    return Solution((f"bash {SOLUTION}/solve.sh",), files)
