"""Nouns of a product's title, which the reward compares: from a spaCy model where one is named, else from a heuristic.

In titles of products a tagger takes nearly every word for a noun or a proper noun. The heuristic takes every word that is
not a function word, a number, or a lone colour after a dash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from harness.errors import RequestError

HEURISTIC = "heuristic-1"

Tagger = Callable[[str], tuple[str, ...]]

_WORDS = """a about all an and any are as at be both by can do does each easily for from has have he her his how i if in into is it
    its my nor not of off on only or other our out over own per she so some such than that the their them then these they
    this those through to too under until up us very was we what when where which while who will with without you your
    quickly softly highly extra non"""
_FUNCTION_WORDS = frozenset(_WORDS.split())
_PLAIN_COLOURS = frozenset(
    ("black", "white", "red", "blue", "green", "yellow", "brown", "pink", "grey", "gray")
)
_WORD = re.compile(r"[^\W_]+(?:[#&.'’-][^\W_]+)*|\|", re.UNICODE)


def heuristic_nouns(title: str) -> tuple[str, ...]:
    """Lower-case nouns in the order of the title, repeats kept."""
    words = [match.group().lower() for match in _WORD.finditer(title)]
    tail = title.rpartition(" - ")[2].strip().lower() if " - " in title else title.strip().lower()
    found = []
    for position, word in enumerate(words):
        word = word.removesuffix("'s").removesuffix("’s")
        if word in _FUNCTION_WORDS or word.replace(".", "").isnumeric():
            continue
        if word in _PLAIN_COLOURS and tail == word and position == len(words) - 1:
            continue
        found.append(word)
    return tuple(found)


def tagger(name: str) -> Tagger:
    """``heuristic-1``, or ``spacy:MODEL`` for an installed spaCy model. Raises RequestError."""
    if name == HEURISTIC:
        return heuristic_nouns
    if not name.startswith("spacy:"):
        raise RequestError(
            f"--tagger {name}: accepted: {HEURISTIC}, or spacy:MODEL such as spacy:en_core_web_lg"
        )
    try:
        model: Any = import_module("spacy").load(name.removeprefix("spacy:"))
    except (ImportError, OSError) as error:
        raise RequestError(
            f"--tagger {name}: cannot be loaded ({error}); accepted: an installed model"
        ) from error
    return lambda title: tuple(
        token.text.lower() for token in model(title) if token.pos_ in ("NOUN", "PROPN")
    )
