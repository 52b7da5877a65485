"""What one task draws from its random stream: words, names, numbers, no name twice."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np

from tasks.terminal.filetree import Entry, text_file
from tasks.terminal.task import HOME


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """The content words: lower case, one or two syllables, none a part of another command or file extension."""
    return tuple((files("tasks.terminal.generator") / "words.txt").read_text().split())


class Draw:
    """Draws for one task."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        order = generator.permutation(len(words()))
        self._words = iter([words()[i] for i in order])

    def word(self) -> str:
        """A word that this task has not used yet."""
        return next(self._words)

    def some(self, count: int) -> list[str]:
        return [self.word() for _ in range(count)]

    def file(self, extension: str = "txt") -> str:
        return f"{self.word()}.{extension}"

    def number(self, low: int, high: int) -> int:
        """An integer in low .. high."""
        return int(self._generator.integers(low, high, endpoint=True))

    def numbers(self, count: int, low: int = 10, high: int = 99) -> list[int]:
        """Different integers."""
        return [int(x) for x in low + self._generator.permutation(high - low + 1)[:count]]

    def pick(self, items: list[str]) -> str:
        return items[self.number(0, len(items) - 1)]

    def shuffled(self, items: list[str]) -> list[str]:
        return [items[i] for i in self._generator.permutation(len(items))]


def at(name: str) -> str:
    return f"{HOME}/{name}"


def lines(items: list[str] | list[int]) -> str:
    return "".join(f"{item}\n" for item in items)


def holding(name: str, items: list[str] | list[int], mode: int = 0o644) -> dict[str, Entry]:
    """One initial file with these lines."""
    return {at(name): text_file(lines(items), mode)}
