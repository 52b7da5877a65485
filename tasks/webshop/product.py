"""A product as the shop holds it, derived from a record of the original's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.webshop.prices import parse_pricing

DUMMY_ATTRIBUTE = "DUMMY_ATTR"
"""Sole attribute of a product that the attribute file does not know."""


class BadRecord(ValueError):
    """A record that cannot be used. ``field`` names what is wrong with it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """An instruction that a person wrote, with the attributes and option values it asks for."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """``options``: values by lower-case group name, in page order. ``prices``: one, or both ends of a range.
    ``nouns``: of the title, for the reward. ``instruction``: the synthetic one, or None."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str
    prices: tuple[float, ...]
    price_tag: str
    image: str
    options: Mapping[str, tuple[str, ...]]
    nouns: tuple[str, ...]
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()
    human: tuple[HumanInstruction, ...] = ()

    @property
    def contents(self) -> str:
        """What the search index holds of it: title, description, first bullet and options, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {options}".lower()

    def to_json(self) -> str:
        """One line; ``Product.from_json`` reads it."""
        return json.dumps(
            [
                self.asin,
                self.title,
                self.description,
                self.bullets,
                self.attributes,
                self.category,
                self.query,
                self.product_category,
                self.prices,
                self.price_tag,
                self.image,
                dict(self.options),
                self.nouns,
                self.instruction,
                self.instruction_attributes,
                [(h.text, h.attributes, h.options) for h in self.human],
            ],
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Product:
        (*texts, prices, tag, image, options, nouns, instruction, asked, human) = json.loads(line)
        asin, title, description, bullets, attributes, category, query, product_category = texts
        return cls(
            asin,
            title,
            description,
            tuple(bullets),
            tuple(attributes),
            category,
            query,
            product_category,
            tuple(prices),
            tag,
            image,
            {name: tuple(values) for name, values in options.items()},
            tuple(nouns),
            instruction,
            tuple(asked),
            tuple(HumanInstruction(text, tuple(a), tuple(o)) for text, a, o in human),
        )


def _text(raw: Mapping[str, Any], field: str) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise BadRecord(field, f"{value!r:.80} is not text")
    return value


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRecord(field, f"{value!r:.80} is not a list of texts")
    return tuple(value)


def _options(raw: Any) -> dict[str, tuple[str, ...]]:
    if not raw:
        return {}
    if not isinstance(raw, Mapping):
        raise BadRecord("customization_options", f"{raw!r:.80} is not a table of options")
    options: dict[str, tuple[str, ...]] = {}
    for name, contents in raw.items():
        if contents is None:
            continue
        try:
            values = [content["value"].strip().replace("/", " | ").lower() for content in contents]
        except (TypeError, KeyError, AttributeError):
            raise BadRecord("customization_options", f"group {name!r} holds no list of values") from None
        options[name.lower()] = tuple(values)
    return options


def derive(
    raw: Mapping[str, Any],
    attributes: Mapping[str, Any] | None,
    human: list[Any] | None,
    nouns: tuple[str, ...],
) -> Product:
    """The product of a raw record, its entry of the attribute file and its human instructions. Raises BadRecord."""
    asin, title = _text(raw, "asin"), _text(raw, "name")
    bullets = raw.get("small_description")
    images = _texts(raw.get("images"), "images")
    if not images:
        raise BadRecord("images", "there is none")
    pricing = raw.get("pricing")
    if pricing is not None and not isinstance(pricing, str):
        raise BadRecord("pricing", f"{pricing!r:.80} is not text")
    try:
        prices, tag = parse_pricing(pricing)
    except ValueError as error:
        raise BadRecord("pricing", f"{pricing!r:.80}: {error}") from None
    instruction = None
    asked: tuple[str, ...] = ()
    if attributes is not None:
        if not isinstance(attributes, Mapping):
            raise BadRecord("attributes", f"{attributes!r:.80} is not a table")
        own = _texts(attributes.get("attributes"), "attributes")
        if attributes.get("instruction") is not None:
            instruction = _text(attributes, "instruction")
            asked = _texts(attributes.get("instruction_attributes"), "instruction_attributes")
            if not asked:
                raise BadRecord("instruction_attributes", "there is none, so no reward can be computed")
    else:
        own = (DUMMY_ATTRIBUTE,)
    return Product(
        asin,
        title,
        _text(raw, "full_description"),
        (bullets,) if isinstance(bullets, str) else _texts(bullets, "small_description"),
        own,
        _text(raw, "category"),
        _text(raw, "query").lower().strip(),
        _text(raw, "product_category"),
        prices,
        tag,
        images[0],
        _options(raw.get("customization_options")),
        nouns,
        instruction,
        asked,
        tuple(_human(entry) for entry in human or ()),
    )


def _human(entry: Any) -> HumanInstruction:
    if not isinstance(entry, Mapping):
        raise BadRecord("instructions", f"{entry!r:.80} is not a table")
    return HumanInstruction(
        _text(entry, "instruction"),
        _texts(entry.get("instruction_attributes"), "instruction_attributes"),
        _texts(entry.get("instruction_options"), "instruction_options"),
    )
