"""The rollout path on a scripted engine and environment: batches, failures, truncation, prompts."""

import asyncio
from dataclasses import dataclass

import pytest

from harness.agent import ChatAgent
from harness.errors import EnvironmentFault, InfrastructureError
from harness.interfaces import Action, Generation, Observation, StepResult
from harness.rollout import Decoding, run_episodes


@dataclass(frozen=True)
class FakeTask:
    task_id: str
    length: int
    family: str = "fake"
    difficulty: int = 1
    fingerprint: str = ""


class Letters:
    """One token per character; the end of turn is 0."""

    def first_prompt(self, messages):
        return tuple(ord(c) for m in messages for c in f"{m.role[0]}:{m.content};")

    def next_prompt(self, prompt_ids, token_ids, new_messages):
        return (*prompt_ids, *token_ids, *self.first_prompt(new_messages))

    def decode(self, token_ids):
        return "".join(chr(t) for t in token_ids if t)


class Echo:
    """Answers with the number of the turn; remembers the batches it was given."""

    tokenizer = Letters()

    def __init__(self, lockstep=True):
        self.lockstep = lockstep
        self.batches = []
        self.forgotten = []

    async def generate(self, requests):
        self.batches.append([r.conversation for r in requests])
        self.requests = requests
        return [Generation((ord("x"), 0), (-0.5, -0.5), "stop") for _ in requests]

    def forget(self, conversations):
        self.forgotten += conversations


class Counting:
    """Ends after ``task.length`` steps; sleeps in an order that differs from the tasks'."""

    def __init__(self, source):
        self.source = source

    async def reset(self, task, seed):
        self.task, self.steps = task, 0
        self.source.seeds.append((task.task_id, seed))
        return Observation(f"start {task.task_id}")

    async def step(self, action):
        await asyncio.sleep(0.001 * (5 - self.task.length % 5))
        self.steps += 1
        fault = self.source.faults.get((self.task.task_id, self.steps))
        if fault and fault[1]:
            fault[1] -= 1
            raise fault[0]
        done = self.steps >= self.task.length
        return StepResult(
            Observation(f"saw {self.steps}"), 0.5 if done else 0.0, done, info={"success": done}
        )

    async def truncate(self):
        return StepResult(Observation(""), 0.25, True, info={"success": False})

    async def close(self):
        self.source.closed += 1


class Source:
    def __init__(self, faults=None):
        self.faults = faults or {}
        self.seeds = []
        self.closed = 0

    def environment(self):
        return Counting(self)


AGENT = ChatAgent(parser=lambda reply: Action("command", reply), max_turns=6, max_new_tokens=4)


def play(policy, source, tasks, concurrency=8, **kwargs):
    return asyncio.run(
        run_episodes(
            policy, AGENT, source, tasks, Decoding(1.0, 0, ("t",)), concurrency=concurrency, **kwargs
        )
    )


def test_lockstep_batches_depend_on_the_tasks_not_on_who_answers_first():
    policy = Echo()
    tasks = [FakeTask("a", 1), FakeTask("b", 3), FakeTask("c", 2), FakeTask("d", 4)]
    got = play(policy, Source(), tasks, concurrency=3)
    assert policy.batches == [[0, 1, 2], [1, 2], [1], [3], [3], [3], [3]]
    assert [t.task_id for t in got] == ["a", "b", "c", "d"]
    assert [len(t.turns) for t in got] == [1, 3, 2, 4]
    assert [t.episode_return for t in got] == [0.5] * 4
    assert sorted(policy.forgotten) == [0, 1, 2, 3]


def test_a_batching_engine_is_called_as_episodes_become_ready():
    policy = Echo(lockstep=False)
    got = play(policy, Source(), [FakeTask(str(i), 2) for i in range(5)], concurrency=2)
    assert all(len(batch) == 1 for batch in policy.batches)
    assert [len(t.turns) for t in got] == [2] * 5


def test_the_next_prompt_keeps_the_sampled_tokens():
    policy = Echo()
    (got,) = play(policy, Source(), [FakeTask("a", 2)])
    first, second = got.turns
    assert second.prompt_ids == (
        *first.prompt_ids,
        *first.token_ids,
        *Letters().first_prompt([]),
        *map(ord, "u:saw 1;"),
    )


def test_the_turn_limit_ends_an_episode_with_the_score_of_its_state():
    (got,) = play(Echo(), Source(), [FakeTask("long", 50)])
    assert got.truncated
    assert len(got.turns) == 6
    assert got.episode_return == 0.25
    assert got.success is False


def test_an_infrastructure_failure_is_played_again_with_the_same_seed():
    source = Source({("b", 1): [InfrastructureError("sandbox died"), 1]})
    policy = Echo()
    got = play(policy, source, [FakeTask("a", 2), FakeTask("b", 2)])
    assert [t.attempts for t in got] == [1, 2]
    assert [t.episode_return for t in got] == [0.5, 0.5]
    seeds = [seed for task, seed in source.seeds if task == "b"]
    assert len(seeds) == 2
    assert seeds[0] == seeds[1]
    assert source.closed == 3


def test_an_infrastructure_failure_for_good_is_missing_data_not_a_zero():
    source = Source({("b", 1): [InfrastructureError("sandbox died"), 99]})
    got = play(Echo(), source, [FakeTask("a", 2), FakeTask("b", 2)], attempts=2)
    assert got[0].episode_return == 0.5
    assert got[1].episode_return is None
    assert got[1].success is None
    assert got[1].error == "sandbox died"


def test_a_defective_environment_stops_everything():
    source = Source({("b", 1): [EnvironmentFault("checker is broken"), 1]})
    with pytest.raises(EnvironmentFault, match="checker is broken"):
        play(Echo(), source, [FakeTask("a", 2), FakeTask("b", 2)])
    assert source.closed == 2


def test_repetitions_of_a_task_share_the_environment_seed_and_not_the_decoding_stream():
    policy = Echo()
    source = Source()
    play(policy, source, [FakeTask("a", 1), FakeTask("a", 1)])
    assert len({seed for _, seed in source.seeds}) == 1
    assert len({request.seed for request in policy.requests}) == 2
