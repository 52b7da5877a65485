import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.terminal.generator.draw import words
from tasks.terminal.generator.generate import HELD_OUT, SEED, TRAINING, VALUE_FAMILIES, generate
from tasks.terminal.generator.manifest import SIZES, TaskList, build_manifest, held_out_keys, load_manifest
from tasks.terminal.suite import TerminalSettings, TerminalSuite
from tasks.terminal.task import verdict
from tests.tasks.terminal.playing import final_trees

SPLITS = tuple(SIZES)


def test_there_are_enough_families_and_held_out_ones_are_never_trained_on():
    assert len(TRAINING) >= 24
    assert len(VALUE_FAMILIES) >= 8
    train = {part.family for task in TaskList("train")[:500] for part in task.parts}
    led = {task.family for task in TaskList("heldout-families")}
    assert not led & train
    assert len(led) == len(HELD_OUT) >= 4
    assert {task.family for task in TaskList("heldout")} <= train


def test_the_committed_manifest_is_what_the_generator_makes():
    assert build_manifest() == load_manifest()
    assert load_manifest()["seed"] == SEED


def test_tasks_do_not_depend_on_the_process_or_its_hash_seed():
    code = (
        "from tasks.terminal.generator.generate import generate\n"
        "print([generate(3, s, i).fingerprint for s in ('train', 'heldout') for i in range(60)])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(seen) == 1


def test_nothing_that_is_held_out_is_in_training_or_in_the_demonstrations():
    lists = {split: [(t.fingerprint, t.content_key) for t in TaskList(split)] for split in SPLITS}
    for kind in (0, 1):
        sets = {split: {item[kind] for item in items} for split, items in lists.items()}
        assert not sets["train"] & sets["heldout"]
        assert not sets["train"] & sets["heldout-families"]
        assert not sets["heldout"] & sets["heldout-families"]
        assert len(sets["heldout"]) == SIZES["heldout"]
    suite = TerminalSuite(TerminalSettings())
    assert not {task.content_key for task in suite.demonstration_tasks(3000)} & held_out_keys()


def test_a_task_that_is_held_out_is_drawn_again():
    first = generate(SEED, "train", 5)
    other = generate(SEED, "train", 5, {first.content_key})
    assert other.content_key != first.content_key
    assert other.task_id == first.task_id


@given(st.sampled_from(SPLITS), st.integers(0, 10_000), st.integers(0, 2**40))
def test_every_task_is_well_formed(split, index, seed):
    task = generate(seed, split, index)
    assert 1 <= task.difficulty <= 3
    assert len(task.parts) == task.difficulty
    assert 2 <= len(task.experts[0]) + 1 <= 8
    assert all(path.startswith("/home/user/") for path in task.files)
    assert len(task.files) == sum(len(part.files) for part in task.parts), "sub-tasks share no path"
    assert task.flawed
    assert not verdict(task, task.files), "the untouched state must fail"


def test_words_are_not_parts_of_each_other():
    assert len(set(words())) == len(words())
    assert [(a, b) for a in words() for b in words() if a != b and a in b] == []


def test_held_out_tasks_cover_families_evenly_and_every_difficulty():
    tasks = list(TaskList("heldout"))
    by_family = [sum(t.family == f for t in tasks) for f in {t.family for t in tasks}]
    assert max(by_family) - min(by_family) <= 1
    by_difficulty = [sum(t.difficulty == d for t in tasks) for d in (1, 2, 3)]
    # Six rounds of 41 families at difficulties 1, 1, 2, 1, 3, 1, then ten tasks of another round at 1.
    assert by_difficulty == [4 * 41 + 10, 41, 41]


@pytest.mark.xdist_group("gate")
def test_quality_gate_over_500_tasks():
    """In real sandboxes: every expert passes, every flawed solution fails (the untouched state is tested above)."""
    tasks = [*TaskList("train")[:340], *TaskList("heldout")[:96], *TaskList("heldout-families")]
    assert len(tasks) == 500
    episodes = [(task, commands, True) for task in tasks for commands in task.experts]
    # Sub-tasks are independent, so the flawed ones of single sub-tasks and one of each chain say it all.
    for number, task in enumerate(tasks):
        flawed = task.flawed if task.difficulty == 1 else [task.flawed[number % len(task.flawed)]]
        episodes += [(task, commands, False) for commands in flawed]
    finals = final_trees([(task, commands) for task, commands, _ in episodes])
    wrong = [
        (task.task_id, task.instruction, commands, wanted)
        for (task, commands, wanted), final in zip(episodes, finals, strict=True)
        if verdict(task, final) != wanted
    ]
    assert wrong == []


def test_demonstrations_are_replies_of_the_protocol_and_end_with_done():
    suite = TerminalSuite(TerminalSettings())
    agent = suite.agent()
    for task in suite.demonstration_tasks(200):
        for skill in ("expert", "flawed"):
            replies = suite.demonstration(task, skill, 0)
            kinds = [agent.parse(reply).kind for reply in replies]
            assert kinds == ["command"] * (len(replies) - 1) + ["done"]
        assert suite.demonstration(task, "expert", 0)[:-1] == [
            f"<command>{c}</command>" for c in task.experts[0]
        ]


def test_the_instruction_never_tells_the_value_of_a_value_family():
    for task in TaskList("train")[: 3 * len(TRAINING)]:
        for part in task.parts:
            if part.family in VALUE_FAMILIES and part.family not in ("mode_of", "holder_of", "count_lines"):
                final = part.steps[-1].split()
                value = final[1] if final[0] == "echo" else final[-1]
                assert value not in part.instruction, (part.instruction, value)


def test_the_manifest_of_the_suite_covers_every_split():
    suite = TerminalSuite(TerminalSettings())
    facts = suite.manifest()
    assert facts["sha256"] == load_manifest()["sha256"]
    assert json.dumps(facts)
    assert [len(suite.tasks(split)) for split in suite.splits()] == [2048, 256, 64]
