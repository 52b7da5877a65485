"""Words that the embedded policy's tokenizer keeps whole: those of the generated catalogue, in lower case."""

from __future__ import annotations

from tasks.webshop.generator.generate import CODES
from tasks.webshop.generator.kinds import BRANDS, KINDS, PURPOSES, STYLES

MARKERS = (
    *(
        "search[",
        "click[",
        "click[buy now]",
        "click[next >]",
        "click[< prev]",
        " with ",
        ", and ",
        "find me ",
    ),
    *(" (chosen)", ", and price lower than ", " dollars", "buy now", "score ", ".00 dollars"),
)


def content_words() -> list[str]:
    """Brands, styles, nouns, attributes, queries, options and the pairs of asins; a phrase is one word."""
    words: list[str] = [*BRANDS, *STYLES, *PURPOSES]
    for kind in KINDS:
        words += (kind.query, *kind.nouns, *kind.attributes)
        for group, values in kind.groups.items():
            words.append(f"{group}: ")
            words += (value.replace("/", " | ") for value in values)
    words += ("b0", *CODES)
    # A token of its own must be ASCII: a byte-level decoder takes its letters for bytes.
    return list(dict.fromkeys(word.lower() for word in words if word.isascii()))
