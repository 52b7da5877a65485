"""Words of a Dockerfile's instruction: quotes, escapes, and variables as Docker replaces them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """``$NAME``, ``${NAME}``, ``${NAME:-default}`` and ``${NAME:+other}``; an unknown name is empty. ``\\$`` stays a dollar."""

    def value(match: re.Match[str]) -> str:
        name, operator, word = match[1] or match[2], match[3], match[4]
        known = variables.get(name)
        present = known is not None and (bool(known) or not (operator or "").startswith(":"))
        if operator and operator.endswith("-"):
            return known or "" if present else expand(word, variables)
        if operator and operator.endswith("+"):
            return expand(word, variables) if present else ""
        return known or ""

    pieces = re.split(r"(\\\$)", text)
    return "".join("$" if piece == "\\$" else _VARIABLE.sub(value, piece) for piece in pieces)


def split_words(text: str, variables: Mapping[str, str]) -> list[str]:
    """Words between white space, unquoted and expanded; nothing is expanded between single quotes.

    Raises ValueError when a quote is not closed."""
    words: list[str] = []
    current: list[str] | None = None
    at = 0
    while at < len(text):
        character = text[at]
        if character.isspace():
            if current is not None:
                words.append("".join(current))
                current = None
            at += 1
            continue
        current = current if current is not None else []
        if character == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise ValueError("a single quote is not closed")
            current.append(text[at + 1 : end])
            at = end + 1
        elif character == '"':
            inner, at = _double_quoted(text, at + 1)
            current.append(expand(inner, variables))
        elif character == "\\" and at + 1 < len(text) and text[at + 1] != "$":
            current.append(text[at + 1])
            at += 2
        else:
            match = re.compile(r"(?:\\\$|\$\{[^}]*\}|[^\s'\"\\])+|\\").match(text, at)
            assert match
            current.append(expand(match[0], variables))
            at = match.end()
    if current is not None:
        words.append("".join(current))
    return words


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    """The inside of a double-quoted string that begins at ``at``, and the place after its end. ``\\$`` is kept for expand."""
    inner: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(inner), at + 1
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in '"\\$`':
            inner.append("\\$" if text[at + 1] == "$" else text[at + 1])
            at += 2
        else:
            inner.append(text[at])
            at += 1
    raise ValueError("a double quote is not closed")
