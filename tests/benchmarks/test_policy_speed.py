"""The torch engine against Hugging Face's generate (left-padded batch), in one run, on the embedded policy."""

import time

import pytest
import torch

from harness.interfaces import GenerationRequest
from harness.policies.torch_policy import TorchPolicy
from tasks.terminal.suite import TerminalSettings, TerminalSuite

ROUNDS, NEW, TURNS = 7, 24, 3


def conversations(policy, count):
    """First prompts of real tasks, of all lengths."""
    suite = TerminalSuite(TerminalSettings())
    agent = suite.agent()
    tasks = [suite.tasks("heldout")[i] for i in range(count)]
    from harness.interfaces import Observation

    return [
        policy.tokenizer.first_prompt(agent.messages([], Observation(task.instruction))) for task in tasks
    ]


def with_generate(policy, prompts):
    """Replies to a left-padded batch; rows end at the first end token, as the engine's do."""
    width = max(map(len, prompts))
    ids = torch.tensor([[*[0] * (width - len(p)), *p] for p in prompts])
    mask = torch.tensor([[*[0] * (width - len(p)), *[1] * len(p)] for p in prompts])
    with torch.no_grad():
        out = policy.model.generate(ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False)
    replies = []
    for row in out[:, width:].tolist():
        end = next((i + 1 for i, token in enumerate(row) if token in policy.tokenizer.end_ids), len(row))
        replies.append(tuple(row[:end]))
    return replies


def with_engine(policy, prompts):
    requests = [GenerationRequest(i, tuple(p), NEW, 0.0, 0) for i, p in enumerate(prompts)]
    return [g.token_ids for g in policy.generate_now(requests)]


def play(reply, policy, prompts, turns):
    """Seconds for ``turns`` replies; between them each conversation grows by the next instruction, as by an observation."""
    policy.weights_changed()
    started = time.perf_counter()
    every = []
    for _ in range(turns):
        replies = reply(policy, prompts)
        every.append(replies)
        prompts = [
            (*p, *r, *prompts[(i + 1) % len(prompts)][:12])
            for i, (p, r) in enumerate(zip(prompts, replies, strict=True))
        ]
    return time.perf_counter() - started, every


@pytest.mark.benchmark
def test_engine_against_generate(capsys):
    torch.set_num_threads(1)
    policy = TorchPolicy(TerminalSuite(TerminalSettings()).policy_dir())
    lines = []
    for count in (8, 32, 64):
        prompts = conversations(policy, count)
        for turns in (1, TURNS):
            theirs, ours = [], []
            for _ in range(ROUNDS):
                seconds, expected = play(with_generate, policy, prompts, turns)
                theirs.append(seconds)
                seconds, got = play(with_engine, policy, prompts, turns)
                ours.append(seconds)
                assert got == expected
            rate = count * turns / min(ours)
            lines.append(
                f"  {count:3d} conversations, {turns} turns: {rate:6.0f} replies/s, {min(theirs) / min(ours):.2f} x generate"
            )
    with capsys.disabled():
        print("\ntorch engine, greedy, best of rounds that alternate, one thread")
        print("\n".join(lines))
