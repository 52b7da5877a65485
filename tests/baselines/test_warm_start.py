"""The warm start: what is imitated is what a rollout conditions on; a small one runs end to end, the same twice."""

import asyncio
import itertools

import pytest
import torch
from safetensors.torch import load_file

from baselines import warm_start as ws
from harness import streams
from harness.interfaces import Generation
from harness.policies import tiny
from harness.policies.chat_tokenizer import ChatTokenizer
from harness.policies.scripted import ScriptedPolicy
from harness.rollout import Decoding, run_episodes
from tasks.terminal.suite import TerminalSettings, TerminalSuite

SETTINGS = ws.WarmStartSettings(demonstrations=24, steps=4, warmup=2, batch=8, vocabulary=500)


def quiet(what, done, total):
    pass


@pytest.fixture(scope="module")
def suite():
    return TerminalSuite(TerminalSettings())


@pytest.fixture(scope="module")
def played(suite):
    return ws.play_demonstrations(suite, SETTINGS, quiet)


@pytest.fixture(scope="module")
def tokenizer(suite, played):
    words, markers = suite.vocabulary()
    return ChatTokenizer(tiny.build_tokenizer(ws.texts_of(played), words, markers, 500), "test")


def test_experts_solve_their_tasks_and_most_flawed_ones_do_not(suite, played):
    assert len(played) == 24
    draws = streams.stream(0, "warm-start", "skill").random(24)
    experts = [t for t, draw in zip(played, draws, strict=True) if draw < SETTINGS.expert_share]
    others = [t for t, draw in zip(played, draws, strict=True) if draw >= SETTINGS.expert_share]
    assert all(t.success for t in experts)
    assert sum(bool(t.success) for t in others) < len(others) / 2


def test_renaming_exchanges_content_words_and_nothing_else(suite, played, tokenizer):
    words = tokenizer.hf.convert_tokens_to_ids(suite.vocabulary()[0])
    generator = streams.stream(3, "test")
    for example in ws.examples_of(played[0], suite, tokenizer):
        other = ws.renamed(example, words, generator)
        assert other.said == example.said
        assert other.ids != example.ids
        pairs = set(zip(example.ids, other.ids, strict=True))
        # The same word gets the same new name, no two words share one, and what is no content word stays.
        assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)
        assert all((old in words) == (new in words) and (old in words or old == new) for old, new in pairs)


def test_what_is_imitated_is_what_a_rollout_conditions_on(suite, played, tokenizer):
    """A policy that says the same replies is asked with exactly the token ids that stand before them in the example."""

    class Recording(ScriptedPolicy):
        def __init__(self, scripts):
            super().__init__(scripts)
            self.tokenizer = tokenizer
            self.prompts = []

        async def generate(self, requests):
            self.prompts += [tuple(r.prompt_ids) for r in requests]
            plain = await super().generate(requests)
            texts = ["".join(map(chr, g.token_ids)) for g in plain]
            ids = [(*tokenizer.encode(text), min(tokenizer.end_ids)) for text in texts]
            return [Generation(i, (0.0,) * len(i), "stop") for i in ids]

    trajectory = max(played, key=lambda t: len(t.turns))
    task = next(t for t in suite.demonstration_tasks(24) if t.task_id == trajectory.task_id)
    policy = Recording([[turn.reply for turn in trajectory.turns]])

    async def play():
        await suite.open(1)
        try:
            return await run_episodes(
                policy, suite.agent(), suite, [task], Decoding(0.0, 0, ("x",)), concurrency=1
            )
        finally:
            await suite.close()

    (again,) = asyncio.run(play())
    assert [turn.reply for turn in again.turns] == [turn.reply for turn in trajectory.turns]
    (example,) = ws.examples_of(trajectory, suite, tokenizer)
    assert len(policy.prompts) == len(trajectory.turns) > 1
    for prompt, turn in zip(policy.prompts, trajectory.turns, strict=True):
        assert example.ids[: len(prompt)] == prompt
        reply = (*tokenizer.encode(turn.reply), min(tokenizer.end_ids))
        span = slice(len(prompt), len(prompt) + len(reply))
        assert example.ids[span] == reply
        assert all(example.said[span])
    said = sum(len(tokenizer.encode(turn.reply)) + 1 for turn in trajectory.turns)
    assert sum(example.said) == said


def test_the_loss_weighs_what_is_said_and_what_is_read(tokenizer):
    model = tiny.build_model(len(tokenizer.hf), tiny.TinyShape(hidden=64, layers=1, heads=2), seed=1)
    short = ws.Example((5, 6, 7), (False, True, True))
    long = ws.Example((5, 9, 7, 8, 4), (False, False, True, False, True))
    settings = ws.WarmStartSettings(context_weight=0.25, word_weight=3.0)
    weights = ws._weights([short, long], frozenset({4, 9}), settings)
    got = float(ws._loss(model, [short, long], weights).detach())
    total = weight = 0.0
    for example in (short, long):
        logs = torch.log_softmax(model(input_ids=torch.tensor([example.ids])).logits[0], -1)
        for i in range(1, len(example.ids)):
            w = (3.0 if example.ids[i] in (4, 9) else 1.0) if example.said[i] else 0.25
            total -= w * float(logs[i - 1, example.ids[i]].detach())
            weight += w
    assert got == pytest.approx(total / weight, rel=1e-5)


def test_batches_hold_every_example_once_a_round():
    examples = [ws.Example(tuple(range(1 + i % 7)), (True,) * (1 + i % 7)) for i in range(50)]
    batches = ws._batches(examples, 8, streams.stream(0, "test"))
    taken = list(itertools.islice(batches, 7))
    assert sorted(i for batch in taken for i in batch) == list(range(50))


def test_a_small_warm_start_is_the_same_twice(suite, tmp_path):
    shape = tiny.TinyShape(hidden=64, layers=1, heads=2, feed_forward=64)
    for name in ("a", "b"):
        report = ws.warm_start(suite, SETTINGS, tmp_path / name, quiet, shape)
        assert report.demonstrations == 24
        assert report.loss > 0
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("a", "b"))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert (tmp_path / "a" / "tokenizer.json").read_bytes() == (
        tmp_path / "b" / "tokenizer.json"
    ).read_bytes()
