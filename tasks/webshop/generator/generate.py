"""Draws the records of the generated catalogue, each from a stream of its own, so that any of them can be made alone.

Every product lists the attributes, options and category that its goals ask for, so every goal can be reached by buying its
own product; cheaper and dearer likenesses of it stand beside it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from harness import streams
from tasks.webshop.generator.kinds import BRANDS, KINDS, PURPOSES, STYLES, Kind
from tasks.webshop.stored import new_folder

PRODUCTS_FILE, ATTRIBUTES_FILE, HUMAN_FILE = "items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"
CODES = tuple(f"{letter}{digit}" for letter in "ABCDEFGHJKLMNPRT" for digit in range(2, 10))
"""Pairs that asins are made of: short, and parts of no other word of the shop."""

_WRITTEN = 0.45
"""Share of the products with a synthetic instruction."""
_ASKED = 0.25
"""Share with a human one."""
_WORDINGS = (
    "i am looking for {noun} with {attributes}{options}.",
    "i need a {noun} that is {attributes}{options}.",
    "please find {attributes} {noun}{options}.",
    "show me {noun}, it should be {attributes}{options}",
)


def asin(seed: int, number: int, products: int) -> str:
    """A different one for every number below ``products``."""
    pairs = 2
    while len(CODES) ** pairs < 2 * products and pairs < 4:
        pairs += 1
    size = len(CODES) ** pairs
    # Multiplying by an odd number permutes the numbers below a power of two.
    factor, shift = streams.derive(seed, "webshop", "asin", 0) | 1, streams.derive(seed, "webshop", "asin", 1)
    code = (number * factor + shift) % size
    parts = []
    for _ in range(pairs):
        code, which = divmod(code, len(CODES))
        parts.append(CODES[which])
    return "B0" + "".join(parts)


class Generated:
    """The ``number``-th product of a catalogue of ``products``: its three records."""

    def __init__(self, seed: int, number: int, products: int) -> None:
        draw = random.Random(streams.derive(seed, "webshop", "product", number))
        kind = KINDS[draw.randrange(len(KINDS))]
        self.asin = asin(seed, number, products)
        self.noun = draw.choice(kind.nouns)
        self.attributes = sorted(draw.sample(kind.attributes, draw.randint(2, 4)))
        self.options = _options(kind, draw)
        self._seed, self._number, self._kind = seed, number, kind
        self._title = self._name(draw)
        self._pricing = _pricing(draw)

    def _name(self, draw: random.Random) -> str:
        told = draw.sample(self.attributes, draw.randint(1, min(3, len(self.attributes))))
        parts = [
            draw.choice(BRANDS),
            draw.choice(STYLES),
            self.noun,
            ", ".join(word.title() for word in told),
        ]
        if draw.random() < 0.3:
            parts.append(draw.choice(PURPOSES))
        if "Color" in self.options and draw.random() < 0.3:
            parts.append(f"- {draw.choice(self.options['Color']).title()}")
        return " ".join(parts)

    def product(self) -> dict[str, Any]:
        """Its record of the product file."""
        offers = ". ".join(word.capitalize() for word in self.attributes)
        return {
            "name": self._title,
            "full_description": f"{self.noun}. {offers}. Made to be used every day.",
            "pricing": self._pricing,
            "images": [f"picture/{self.asin}.svg"],
            "product_category": self._kind.levels,
            "small_description": [
                *(
                    f"{word.capitalize()}: this {self.noun.lower()} was made with care"
                    for word in self.attributes
                ),
                f"What you get: one {self.noun.lower()}",
            ],
            "customization_options": {
                name: [
                    {"value": value, "is_selected": False, "is_available": True, "asin": self.asin}
                    for value in values
                ]
                for name, values in self.options.items()
            }
            or "",
            "asin": self.asin,
            "category": self._kind.category,
            "query": self._kind.query,
            "page": self._number % 400,
            "average_rating": "",
        }

    def attribute_entry(self) -> dict[str, Any]:
        """Its record of the attribute file."""
        draw = random.Random(streams.derive(self._seed, "webshop", "instruction", self._number))
        entry: dict[str, Any] = {"attributes": self.attributes}
        if draw.random() < _WRITTEN:
            asked = draw.sample(self.attributes, min(len(self.attributes), draw.choice((1, 1, 2, 2, 3))))
            entry["instruction"] = f"Find me {', '.join(asked)} {self._kind.query}"
            entry["instruction_attributes"] = asked
        return entry

    def human_entries(self) -> list[dict[str, Any]]:
        """Its records of the file of human instructions; mostly none."""
        draw = random.Random(streams.derive(self._seed, "webshop", "human", self._number))
        if draw.random() >= _ASKED:
            return []
        asked = draw.sample(self.attributes, min(len(self.attributes), draw.choice((1, 2))))
        chosen = {name: draw.choice(values) for name, values in self.options.items() if draw.random() < 0.8}
        values = [value.lower() for value in chosen.values()]
        text = draw.choice(_WORDINGS).format(
            noun=self.noun.lower(),
            attributes=" and ".join(asked),
            options=f" in {', '.join(values)}" if values else "",
        )
        entry = {
            "asin": self.asin,
            "instruction": text,
            "attributes": self.attributes,
            "options": [f"{name.lower()}: {value.lower()}" for name, value in chosen.items()] or [""],
            "instruction_attributes": asked,
            "instruction_options": values,
        }
        return [entry]


def _options(kind: Kind, draw: random.Random) -> dict[str, list[str]]:
    """Values by group; a product has some of its kind's groups, or none."""
    names = [name for name in kind.groups if draw.random() < 0.55]
    return {
        name: draw.sample(kind.groups[name], draw.randint(2, min(5, len(kind.groups[name]))))
        for name in names
    }


def _pricing(draw: random.Random) -> str:
    price = round(draw.choice((8, 20, 45, 90, 160)) * draw.uniform(0.6, 1.9), 2)
    kind = draw.random()
    if kind < 0.04:
        return ""
    if kind < 0.06:
        return f"${price * 9:,.2f}"
    if kind < 0.18:
        return f"${price:.2f} - ${price * draw.uniform(1.1, 1.6):.2f}"
    return f"${price:.2f}"


def products(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Records of the product file."""
    return (Generated(seed, number, count).product() for number in range(count))


def tables(count: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attribute file and the file of human instructions, by asin."""
    attributes, human = {}, {}
    for number in range(count):
        generated = Generated(seed, number, count)
        attributes[generated.asin] = generated.attribute_entry()
        if entries := generated.human_entries():
            human[generated.asin] = entries
    return attributes, human


def write_files(folder: Path, count: int, seed: int) -> None:
    """The three files, in a new folder that appears when they are complete. Memory does not grow with ``count``."""
    with (
        new_folder(folder) as temporary,
        (temporary / PRODUCTS_FILE).open("w", encoding="utf-8") as product_file,
        (temporary / ATTRIBUTES_FILE).open("w", encoding="utf-8") as attribute_file,
        (temporary / HUMAN_FILE).open("w", encoding="utf-8") as human_file,
    ):
        _stream(product_file, attribute_file, human_file, count, seed)


def _stream(product_file: TextIO, attribute_file: TextIO, human_file: TextIO, count: int, seed: int) -> None:
    product_file.write("[")
    attribute_file.write("{")
    human_file.write("{")
    humans = 0
    for number in range(count):
        generated = Generated(seed, number, count)
        comma = "" if number == 0 else ",\n"
        product_file.write(comma + json.dumps(generated.product()))
        attribute_file.write(
            f"{comma}{json.dumps(generated.asin)}: {json.dumps(generated.attribute_entry())}"
        )
        if entries := generated.human_entries():
            human_file.write(f"{',' * (humans > 0)}\n{json.dumps(generated.asin)}: {json.dumps(entries)}")
            humans += 1
    product_file.write("]\n")
    attribute_file.write("}\n")
    human_file.write("}\n")
