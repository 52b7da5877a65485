"""From (seed, split, index) to a task: pick the family, chain sub-tasks by difficulty, avoid what is held out."""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness import streams
from tasks.terminal.generator import families_files, families_text, families_values
from tasks.terminal.generator.draw import Draw
from tasks.terminal.task import Part, TerminalTask

Family = Callable[[Draw], Part]

TRAINING: tuple[Family, ...] = (*families_text.TRAINING, *families_files.TRAINING, *families_values.TRAINING)
HELD_OUT: tuple[Family, ...] = (*families_text.HELD_OUT, *families_files.HELD_OUT, *families_values.HELD_OUT)
VALUE_FAMILIES = tuple(family.__name__ for family in families_values.TRAINING)

SEED = 20261201
"""Of the frozen lists."""
DIFFICULTIES = (1, 1, 2, 1, 3)
"""Sub-tasks of a task, round after round of the families."""
JOINTS = (", then ", ", finally ")
"""Before the second and the third sub-task."""
HELD_OUT_SPLIT = "heldout"
FAMILIES_SPLIT = "heldout-families"
TRAIN_SPLIT = "train"


def generate(seed: int, split: str, index: int, avoid: Collection[str] = ()) -> TerminalTask:
    """The task of this name. Families follow each other evenly, difficulties as in ``DIFFICULTIES``; ``heldout-families`` leads
    with a family that is never trained on. A task whose content key is in ``avoid`` is drawn again, from the next stream."""
    attempt = 0
    while True:
        task = _draw(seed, split, index, attempt)
        if task.content_key not in avoid:
            return task
        attempt += 1


def _draw(seed: int, split: str, index: int, attempt: int) -> TerminalTask:
    generator = streams.stream(seed, "terminal", split, index, attempt)
    draw = Draw(generator)
    lead = HELD_OUT if split == FAMILIES_SPLIT else TRAINING
    first = lead[index % len(lead)]
    difficulty = DIFFICULTIES[index // len(lead) % len(DIFFICULTIES)]
    families = [first]
    while len(families) < difficulty:
        families.append(TRAINING[int(generator.integers(len(TRAINING)))])
    parts = tuple(family(draw) for family in families)
    joints = ("", *JOINTS)
    instruction = "".join(joint + part.instruction for joint, part in zip(joints, parts, strict=False))
    return TerminalTask(f"{split}-{index:05d}", parts[0].family, difficulty, instruction, parts)
