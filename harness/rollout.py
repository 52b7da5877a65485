"""Episodes: one coroutine each, many at once. The only rollout path: training, evaluation and warm start all use it.

An engine that asks for ``lockstep`` gets its requests in reproducible batches: :class:`_Lockstep` holds each request until
every live episode of the call has one, and passes them on in the order of the episodes. So a batch depends on the tasks and
on what the policy did, not on which sandbox answered first.

Failures (see ``harness.errors``): an InfrastructureError ends the attempt and the episode is played again from its start with
the same random streams, up to ``attempts`` times; then the trajectory carries the error and has no return.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness import streams
from harness.errors import InfrastructureError
from harness.interfaces import (
    Agent,
    Environment,
    Generation,
    GenerationRequest,
    Message,
    Policy,
    StepResult,
    Task,
    Trajectory,
    Turn,
)


class EnvironmentSource(Protocol):
    """What opens environments: a suite that is open in this process."""

    def environment(self) -> Environment: ...


@dataclass(frozen=True, slots=True)
class Decoding:
    """How replies are drawn. ``temperature`` 0 is greedy. Streams are named by
    ``(run_seed, *stream_name, task, repetition, turn)``, where the repetition counts the same task within one call; the
    environment's seed leaves the repetition out, so that repetitions of a task are a group under equal conditions."""

    temperature: float
    run_seed: int
    stream_name: tuple[str | int, ...] = ()


class _Lockstep:
    """Collects one request of each live episode, then calls the engine once. Single-threaded asyncio."""

    def __init__(self, policy: Policy, live: int) -> None:
        self._policy = policy
        self._live = live
        self._waiting: dict[int, tuple[GenerationRequest, asyncio.Future[tuple[Generation, float]]]] = {}

    async def generate(self, episode: int, request: GenerationRequest) -> tuple[Generation, float]:
        future: asyncio.Future[tuple[Generation, float]] = asyncio.get_running_loop().create_future()
        self._waiting[episode] = (request, future)
        await self._fire_if_complete()
        return await future

    async def leave(self) -> None:
        """One episode is over (or repeats from its start outside the batch)."""
        self._live -= 1
        await self._fire_if_complete()

    async def _fire_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._live:
            return
        batch = [self._waiting[episode] for episode in sorted(self._waiting)]
        self._waiting = {}
        started = time.perf_counter()
        try:
            generations = await self._policy.generate([request for request, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            return
        share = (time.perf_counter() - started) / len(batch)
        for (_, future), generation in zip(batch, generations, strict=True):
            future.set_result((generation, share))


class _Continuous:
    """Passes each request on at once: the engine batches by itself."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def generate(self, episode: int, request: GenerationRequest) -> tuple[Generation, float]:
        started = time.perf_counter()
        (generation,) = await self._policy.generate([request])
        return generation, time.perf_counter() - started

    async def leave(self) -> None:
        return None


def _next_prompt(
    policy: Policy, messages: list[Message], previous: list[Message] | None, turns: list[Turn]
) -> tuple[int, ...]:
    """Prompt of the next reply: sampled tokens are kept where the conversation only grew, else all is tokenised afresh."""
    if previous is not None and turns:
        last = turns[-1]
        grown = [*previous, Message("assistant", last.reply)]
        if messages[: len(grown)] == grown:
            return policy.tokenizer.next_prompt(last.prompt_ids, last.token_ids, messages[len(grown) :])
    return policy.tokenizer.first_prompt(messages)


async def _attempt(
    index: int,
    task: Task,
    seed: int,
    policy: Policy,
    engine: _Lockstep | _Continuous,
    agent: Agent,
    environment: Environment,
    decoding: Decoding,
    repetition: int,
) -> tuple[list[Turn], bool]:
    """Play one episode to its end: its turns, and whether the turn limit ended it."""
    observation = await environment.reset(task, seed)
    turns: list[Turn] = []
    previous: list[Message] | None = None
    while True:
        messages = agent.messages(turns, observation)
        prompt = _next_prompt(policy, messages, previous, turns)
        request = GenerationRequest(
            conversation=index,
            prompt_ids=prompt,
            max_new_tokens=agent.max_new_tokens,
            temperature=decoding.temperature,
            seed=streams.derive(
                decoding.run_seed, "decode", *decoding.stream_name, task.task_id, repetition, len(turns)
            )
            if decoding.temperature > 0
            else 0,
        )
        generation, policy_s = await engine.generate(index, request)
        reply = policy.tokenizer.decode(generation.token_ids)
        action = agent.parse(reply)
        started = time.perf_counter()
        result = await environment.step(action)
        truncated = not result.done and len(turns) + 1 >= agent.max_turns
        if truncated:
            final = await environment.truncate()
            result = StepResult(
                result.observation,
                result.reward + final.reward,
                True,
                result.invalid,
                {**result.info, **final.info},
            )
        environment_s = time.perf_counter() - started
        turns.append(
            Turn(
                observation,
                prompt,
                generation.token_ids,
                generation.logprobs,
                reply,
                action,
                generation.finish,
                result,
                policy_s,
                environment_s,
            )
        )
        if result.done:
            return turns, truncated
        observation, previous = result.observation, messages


async def _episode(
    index: int,
    task: Task,
    seed: int,
    policy: Policy,
    engine: _Lockstep | _Continuous,
    agent: Agent,
    source: EnvironmentSource,
    decoding: Decoding,
    repetition: int,
    attempts: int,
) -> Trajectory:
    started = time.perf_counter()
    error = ""
    in_batch = True
    try:
        for attempt in range(1, attempts + 1):
            environment = source.environment()
            try:
                turns, truncated = await _attempt(
                    index, task, seed, policy, engine, agent, environment, decoding, repetition
                )
            except InfrastructureError as failure:
                error = str(failure)
                if in_batch:
                    # A repetition must not stall the others, nor change their batches: it goes on alone.
                    in_batch = False
                    await engine.leave()
                policy.forget([index])
                engine = _Continuous(policy)
                await asyncio.sleep(0.05 * attempt)
                continue
            finally:
                await environment.close()
            return Trajectory(
                task.task_id,
                task.family,
                task.difficulty,
                seed,
                tuple(turns),
                sum(turn.result.reward for turn in turns),
                bool(turns[-1].result.info.get("success", False)),
                truncated,
                attempt,
                time.perf_counter() - started,
            )
        return Trajectory(
            task.task_id,
            task.family,
            task.difficulty,
            seed,
            (),
            None,
            None,
            False,
            attempts,
            time.perf_counter() - started,
            error=error,
        )
    finally:
        policy.forget([index])
        if in_batch:
            await engine.leave()


async def run_episodes(
    policy: Policy,
    agent: Agent,
    source: EnvironmentSource,
    tasks: Sequence[Task],
    decoding: Decoding,
    *,
    concurrency: int,
    attempts: int = 3,
    on_done: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """One trajectory per task, in the order given.

    concurrency: episodes at once; with a lockstep engine, tasks are taken in fixed groups of so many, so it is part of
    what makes a result reproducible. attempts: tries per episode before an infrastructure failure counts as missing data.
    """

    seen: dict[str, int] = {}
    repetitions: list[int] = []
    for task in tasks:
        repetitions.append(seen.get(task.task_id, 0))
        seen[task.task_id] = repetitions[-1] + 1

    async def one(index: int, engine: _Lockstep | _Continuous) -> Trajectory:
        task = tasks[index]
        seed = streams.derive(decoding.run_seed, "environment", *decoding.stream_name, task.task_id)
        trajectory = await _episode(
            index, task, seed, policy, engine, agent, source, decoding, repetitions[index], attempts
        )
        if on_done is not None:
            on_done(trajectory)
        return trajectory

    results: list[Trajectory] = []
    if policy.lockstep:
        for start in range(0, len(tasks), concurrency):
            group = range(start, min(start + concurrency, len(tasks)))
            engine = _Lockstep(policy, len(group))
            results.extend(await _gather([one(index, engine) for index in group]))
        return results
    gate = asyncio.Semaphore(concurrency)

    async def gated(index: int) -> Trajectory:
        async with gate:
            return await one(index, _Continuous(policy))

    return await _gather([gated(index) for index in range(len(tasks))])


async def _gather(coroutines: Sequence[Coroutine[Any, Any, Trajectory]]) -> list[Trajectory]:
    """Like asyncio.gather, but the first exception cancels the rest and is raised as itself."""
    jobs = [asyncio.ensure_future(c) for c in coroutines]
    try:
        return list(await asyncio.gather(*jobs))
    except BaseException:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        raise
