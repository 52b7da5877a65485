"""The warm start: an embedded policy from scratch, by behaviour cloning on imperfect demonstrations.

Tokenizer and weights are made from nothing but the suite's own demonstrations, which are played through the common rollout
path in real environments. Most demonstrations are flawed in plausible ways: the policy then knows how to do things right but
usually does not, so that post-training has something to elicit, as with a real model.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from harness import streams
from harness.interfaces import Message, Suite, Task, Trajectory
from harness.policies import tiny
from harness.policies.chat_tokenizer import ChatTokenizer
from harness.policies.scripted import ScriptedPolicy
from harness.rollout import Decoding, run_episodes


@dataclass(frozen=True, slots=True)
class WarmStartSettings:
    """seed: of weights, demonstrations and batches. demonstrations: episodes. expert_share: of them solve their task.
    vocabulary: tokens in all. steps, batch: of AdamW at ``learning_rate`` with a cosine to 0 after ``warmup`` steps.
    context_weight: weight of the loss on what the policy reads, beside 1 on what it says and word_weight on the content words
    that it says, which are the hard part: each must be copied from the right place. short_share: of the steps come
    first and see only the shorter half of the demonstrations, on which copying is learnt sooner. rename: before every step the
    content words of each demonstration are exchanged for others, the same in all of it: what can be learnt is where a word
    stands, not which one it is."""

    seed: int = 0
    demonstrations: int = 8_000
    expert_share: float = 0.3
    vocabulary: int = 800
    steps: int = 2_600
    batch: int = 32
    learning_rate: float = 5e-3
    warmup: int = 50
    weight_decay: float = 0.01
    context_weight: float = 0.25
    gradient_norm: float = 1.0
    word_weight: float = 3.0
    short_share: float = 0.5
    rename: bool = True


class DemonstratingSuite(Suite, Protocol):
    """What a suite must offer beyond ``harness.interfaces.Suite`` to have an embedded policy."""

    def demonstration_tasks(self, count: int) -> list[Task]: ...
    def vocabulary(self) -> tuple[list[str], list[str]]:
        """``(content words, markers)`` that are single tokens."""
        ...


Progress = Callable[[str, int, int], None]
"""``progress(what, done, total)``."""


def play_demonstrations(
    suite: DemonstratingSuite, settings: WarmStartSettings, progress: Progress
) -> list[Trajectory]:
    """Scripted episodes in real environments, in the order of the tasks. Those that the infrastructure broke are left out."""
    tasks = suite.demonstration_tasks(settings.demonstrations)
    generator = streams.stream(settings.seed, "warm-start", "skill")
    skills = ["expert" if draw < settings.expert_share else "flawed" for draw in generator.random(len(tasks))]
    scripts = [
        suite.demonstration(task, skill, settings.seed) for task, skill in zip(tasks, skills, strict=True)
    ]
    done = 0

    def count(trajectory: Trajectory) -> None:
        nonlocal done
        done += 1
        if done % 200 == 0:
            progress("demonstrations", done, len(tasks))

    async def play() -> list[Trajectory]:
        await suite.open(8)
        try:
            return await run_episodes(
                ScriptedPolicy(scripts),
                suite.agent(),
                suite,
                tasks,
                Decoding(0.0, settings.seed, ("warm-start",)),
                concurrency=8,
                on_done=count,
            )
        finally:
            await suite.close()

    return [trajectory for trajectory in asyncio.run(play()) if trajectory.error is None]


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of one episode, and which of them the policy said."""

    ids: tuple[int, ...]
    said: tuple[bool, ...]


def examples_of(trajectory: Trajectory, suite: Suite, tokenizer: ChatTokenizer) -> list[Example]:
    """The sequences on which the rollout would have conditioned: one for a conversation that grows, one per turn otherwise."""
    agent = suite.agent()
    end = min(tokenizer.end_ids)
    examples: list[Example] = []
    ids: tuple[int, ...] = ()
    said: list[bool] = []
    previous: list[Message] | None = None
    for number, turn in enumerate(trajectory.turns):
        messages = agent.messages(trajectory.turns[:number], turn.observation)
        reply = (*tokenizer.encode(turn.reply), end)
        grown = (
            [*previous, Message("assistant", trajectory.turns[number - 1].reply)]
            if previous is not None
            else []
        )
        if grown and messages[: len(grown)] == grown:
            prompt = tokenizer.next_prompt(ids, (), messages[len(grown) :])
        else:
            if ids:
                examples.append(Example(ids, tuple(said)))
            prompt, said = tokenizer.first_prompt(messages), []
        said += [False] * (len(prompt) - len(said)) + [True] * len(reply)
        ids = (*prompt, *reply)
        previous = messages
    return [*examples, Example(ids, tuple(said))]


def texts_of(trajectories: Sequence[Trajectory]) -> list[str]:
    """What the tokenizer is made from."""
    return [text for t in trajectories for turn in t.turns for text in (turn.observation.text, turn.reply)]


def train(
    model: Any,
    examples: Sequence[Example],
    words: Sequence[int],
    settings: WarmStartSettings,
    progress: Progress,
) -> float:
    """Behaviour cloning in place; the mean loss of the last tenth of the steps. Sequences of like length share a batch.
    ``words``: the token ids that may be exchanged for one another."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=settings.weight_decay
    )
    generator = streams.stream(settings.seed, "warm-start", "batches")
    names = streams.stream(settings.seed, "warm-start", "names")
    by_length = sorted(examples, key=lambda example: len(example.ids))
    short = by_length[: (len(by_length) + 1) // 2]
    switch = int(settings.short_share * settings.steps)
    losses: list[float] = []
    known = frozenset(words)
    model.train()
    for step in range(settings.steps):
        if step in (0, switch):
            seen = short if step < switch else by_length
            batches = _batches(seen, settings.batch, generator)
        rate = min(1.0, (step + 1) / settings.warmup) * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * rate
        batch = [seen[i] for i in next(batches)]
        if settings.rename:
            batch = [renamed(example, words, names) for example in batch]
        loss = _loss(model, batch, _weights(batch, known, settings))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_norm)
        optimiser.step()
        losses.append(float(loss.detach()))
        if step % 20 == 0:
            progress(f"behaviour cloning, loss {losses[-1]:.3f}", step, settings.steps)
    model.eval()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def _batches(examples: Sequence[Example], size: int, generator: Any) -> Any:
    """Endless batches of indices: shuffled, then sorted by length within pools of 50 batches, then shuffled as batches."""
    pool = 50 * size
    while True:
        order = generator.permutation(len(examples)).tolist()
        for start in range(0, len(order), pool):
            part = sorted(order[start : start + pool], key=lambda i: len(examples[i].ids))
            groups = [part[i : i + size] for i in range(0, len(part), size)]
            for which in generator.permutation(len(groups)).tolist():
                yield groups[which]


def renamed(example: Example, words: Sequence[int], generator: np.random.Generator) -> Example:
    """The same episode with its content words exchanged by a random permutation of all of them."""
    others = dict(zip(words, generator.permutation(words).tolist(), strict=True))
    return Example(tuple(others.get(token, token) for token in example.ids), example.said)


def _weights(
    batch: Sequence[Example], words: frozenset[int], settings: WarmStartSettings
) -> list[list[float]]:
    """Of the loss on each token."""
    return [
        [
            settings.context_weight if not said else settings.word_weight if token in words else 1.0
            for token, said in zip(example.ids, example.said, strict=True)
        ]
        for example in batch
    ]


def _loss(model: Any, batch: Sequence[Example], token_weights: Sequence[Sequence[float]]) -> torch.Tensor:
    """Weighted mean cross-entropy of the next token."""
    width = max(len(example.ids) for example in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    weights = torch.zeros((len(batch), width))
    for row, (example, mine) in enumerate(zip(batch, token_weights, strict=True)):
        ids[row, : len(example.ids)] = torch.tensor(example.ids)
        weights[row, : len(example.ids)] = torch.tensor(mine)
    # Padding is on the right, so causal attention needs no mask for it.
    logits = model(input_ids=ids).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    scale = weights[:, 1:].flatten()
    return (loss * scale).sum() / scale.sum()


@dataclass(frozen=True, slots=True)
class WarmStartReport:
    """cpu_s: of this process (the sandboxes' and the evaluation's are not in it)."""

    demonstrations: int
    parameters: int
    vocabulary: int
    tokens_per_demonstration: float
    loss: float
    cpu_s: float
    wall_s: float


def warm_start(
    suite: DemonstratingSuite,
    settings: WarmStartSettings,
    folder: Path,
    progress: Progress,
    shape: tiny.TinyShape | None = None,
) -> WarmStartReport:
    """Make the policy of a suite in ``folder`` (weights, tokenizer, configuration; no card yet)."""
    wall, cpu = time.perf_counter(), time.process_time()
    torch.set_num_threads(1)
    trajectories = play_demonstrations(suite, settings, progress)
    words, markers = suite.vocabulary()
    tokenizer = ChatTokenizer(
        tiny.build_tokenizer(texts_of(trajectories), words, markers, settings.vocabulary), str(folder)
    )
    examples = [example for t in trajectories for example in examples_of(t, suite, tokenizer)]
    size = len(tokenizer.hf)
    model = tiny.build_model(
        size, shape or tiny.TinyShape(), streams.derive(settings.seed, "warm-start", "weights") % 2**63
    )
    loss = train(model, examples, tokenizer.hf.convert_tokens_to_ids(words), settings, progress)
    tiny.save(model, tokenizer.hf, folder)
    return WarmStartReport(
        demonstrations=len(trajectories),
        parameters=sum(p.numel() for p in model.parameters()),
        vocabulary=size,
        tokens_per_demonstration=sum(len(e.ids) for e in examples) / max(1, len(trajectories)),
        loss=loss,
        cpu_s=time.process_time() - cpu,
        wall_s=time.perf_counter() - wall,
    )
