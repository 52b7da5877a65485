"""What suites, methods, agents and engines must offer, and the frozen dataclasses that travel between them.

The way of the data: a :class:`Suite` gives tasks and environments, an :class:`Agent` turns an episode so far into
messages and a reply into an :class:`Action`, a :class:`Policy` turns token ids into token ids, ``harness.rollout`` runs
the episodes and returns one :class:`Trajectory` each. Everything else (ES, GRPO, evaluation, warm start) builds on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

JSON = Any  # what json.dumps accepts


# ---------------------------------------------------------------------------------------------------- what travels


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees. ``admissible`` lists the actions that would do something, where the environment knows them."""

    text: str
    admissible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A parsed reply. ``kind`` is the suite's word (``command``, ``done``, ``search``, ``click``) or ``invalid``."""

    kind: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The environment's answer. ``reward`` is what this step earned; an episode's return is their sum.

    ``invalid`` says that the action meant nothing to the environment (it cost a turn and changed nothing).
    ``info`` carries facts for the record (exit code, time-out, success); the agent never sees it. On the last step
    ``info["success"]`` is a bool.
    """

    observation: Observation
    reward: float
    done: bool
    invalid: bool = False
    info: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One reply wanted.

    conversation: key under which an engine may keep its key/value cache from one turn of an episode to the next.
    prompt_ids: the whole prompt, token by token; what it shares with the cached prefix need not be computed again.
    temperature: 0 is greedy.
    seed: names the random stream of this reply (64 bits): the sampled tokens are a function of weights, prompt and
        seed, whatever else is in the batch.
    """

    conversation: int
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Generation:
    """Tokens as sampled, the end-of-turn token included where it was emitted, with log-probabilities (natural log, at the
    sampling temperature; at temperature 0 those of the untempered distribution)."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an episode: what the agent saw, what the policy emitted, what came of it."""

    observation: Observation
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reply: str
    action: Action
    finish: str
    result: StepResult
    policy_s: float
    environment_s: float


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode. ``error`` is set when the infrastructure failed for good: then there is no return and no success."""

    task_id: str
    family: str
    difficulty: int
    seed: int
    turns: tuple[Turn, ...]
    episode_return: float | None
    success: bool | None
    truncated: bool
    attempts: int
    wall_s: float
    error: str | None = None

    @property
    def generated_tokens(self) -> int:
        return sum(len(turn.token_ids) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Member:
    """A perturbed policy ``theta_b + sigma * sign * eps(noise_id)``; identified by ``member_id`` alone.

    Antithetic partners share ``noise_id`` and differ in ``sign``; otherwise ``noise_id == member_id``.
    """

    member_id: int
    version: int
    noise_id: int
    sign: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """What evaluating one member gave. ``fitness`` is the mean episode return over its tasks; ``task_returns`` pairs each
    task id with its return. Times are seconds of the worker."""

    member: Member
    fitness: float
    task_returns: tuple[tuple[str, float], ...]
    episodes: int
    successes: int
    generated_tokens: int
    worker_s: float
    policy_s: float
    environment_s: float
    noise_s: float


@dataclass(frozen=True, slots=True)
class UpdateTerm:
    """One line of the seed log: the update adds ``alpha * coefficient * sign * eps(noise_id)`` to the master weights."""

    noise_id: int
    sign: int
    coefficient: float


# ---------------------------------------------------------------------------------------------------- who offers what


@runtime_checkable
class Task(Protocol):
    """One task. ``fingerprint`` is the SHA-256 of everything that makes it what it is."""

    @property
    def task_id(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def difficulty(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...


class Environment(Protocol):
    """One episode at a time. Raises InfrastructureError when the machine failed, EnvironmentFault when the task is defective."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """Start an episode; an unfinished one is dropped."""
        ...

    async def step(self, action: Action) -> StepResult: ...

    async def truncate(self) -> StepResult:
        """The turn limit ended the episode: score the state as it stands (``done`` is True)."""
        ...

    async def close(self) -> None:
        """Give back what the episode holds. Safe to call twice."""
        ...


class Agent(Protocol):
    """Prompt and parser. Pure: an agent keeps nothing between calls."""

    @property
    def max_turns(self) -> int:
        """Replies per episode."""
        ...

    @property
    def max_new_tokens(self) -> int:
        """Tokens per reply."""
        ...

    def messages(self, turns: Sequence[Turn], observation: Observation) -> list[Message]:
        """The whole prompt for the next reply. Where it extends the previous prompt and reply, the sampled tokens are kept
        as they are; where it does not (a limited history), the prompt is tokenised afresh."""
        ...

    def parse(self, reply: str) -> Action: ...


class Suite(Protocol):
    """A task suite, found through the entry-point group ``bench.suites``; constructed as ``cls(settings)`` where
    ``settings`` is an instance of ``cls.Settings`` (a pydantic model, the ``[suite]`` table of the experiment file)."""

    name: ClassVar[str]
    Settings: ClassVar[type]

    def splits(self) -> tuple[str, ...]:
        """``train`` and ``heldout``, and others that are evaluated but never trained on."""
        ...

    def tasks(self, split: str) -> Sequence[Task]: ...

    def manifest(self) -> Mapping[str, JSON]:
        """Facts for the run's manifest; ``manifest()["sha256"]`` covers every task of every split."""
        ...

    def agent(self) -> Agent: ...

    def policy_dir(self) -> Path:
        """The folder of the embedded policy's weights and tokenizer."""
        ...

    async def open(self, concurrency: int) -> None:
        """Make ready (start a pool of sandboxes, load the catalogue) for so many episodes at once, in this process."""
        ...

    def environment(self) -> Environment: ...

    async def close(self) -> None: ...

    def demonstration(self, task: Task, skill: str, seed: int) -> list[str]:
        """Replies that a scripted agent gives, one per turn: ``skill`` is ``expert`` (solves it) or ``flawed``
        (plausibly wrong). Raises RequestError where a suite has none."""
        ...


class Tokenizer(Protocol):
    """Chat text to token ids and back (``harness.policies.chat_tokenizer``)."""

    def first_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]: ...
    def next_prompt(
        self, prompt_ids: tuple[int, ...], token_ids: tuple[int, ...], new_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        """The prompt after a reply: earlier tokens as they are, the end of turn supplied where the reply was cut, then the
        new messages and the header of the next reply."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a reply, without its end-of-turn token."""
        ...


class Policy(Protocol):
    """An inference engine that holds one set of weights at a time."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def lockstep(self) -> bool:
        """True: results are reproducible only when batches are, so ``rollout`` waits for every live episode before it calls
        ``generate``. False: the engine batches by itself and is called as episodes become ready."""
        ...

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]: ...
    def forget(self, conversations: Sequence[int]) -> None:
        """Drop cached keys and values of finished episodes."""
        ...
