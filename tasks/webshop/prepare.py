"""From raw records to a prepared catalogue: products, prices, goals and index, in one pass that keeps going over bad records."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from harness import streams
from harness.errors import RequestError
from tasks.webshop.analyzer import analyze
from tasks.webshop.goals import GoalSeed, combinations, shuffled, synthetic_rows
from tasks.webshop.nouns import HEURISTIC, tagger
from tasks.webshop.prices import draw_price
from tasks.webshop.product import BadRecord, Product, derive
from tasks.webshop.search import IndexBuilder
from tasks.webshop.stored import Prepared

KEPT_EXAMPLES = 1000


@dataclass
class Report:
    """What became of the records. ``skipped``: by reason (what the original skips too). ``bad``: by field; ``examples`` has the
    first thousand as ``(asin, field, what is wrong)``."""

    read: int = 0
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)

    def note(self, asin: str, name: str, message: str) -> None:
        self.bad[name] += 1
        if len(self.examples) < KEPT_EXAMPLES:
            printable = asin.encode("utf-8", "backslashreplace").decode()
            self.examples.append((printable, name, message.encode("utf-8", "backslashreplace").decode()))

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "kept": self.kept,
            "skipped": dict(sorted(self.skipped.items())),
            "bad": dict(sorted(self.bad.items())),
            "examples": [list(example) for example in self.examples],
        }


class _Codes:
    """Numbers for texts, in the order of their first appearance."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.codes: list[int] = []

    def add(self, name: str) -> None:
        self.codes.append(self.names.setdefault(name, len(self.names)))


class _Goals:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.synthetic: list[GoalSeed] = []
        self.human: list[GoalSeed] = []
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, number: int, product: Product, price: float) -> None:
        if not product.human and product.instruction is None:
            return
        draw = streams.derive(self._seed, "webshop", "bound", product.asin)
        fixed = product.prices[-1]
        if count := combinations(product):
            asked = self._shared.setdefault(product.instruction_attributes, product.instruction_attributes)
            items = [(i, asked) for i in range(count)]
            self.synthetic.append(GoalSeed(number, price, fixed, draw, items, True))
        humans = [(i, human.attributes) for i, human in enumerate(product.human) if human.attributes]
        if humans:
            self.human.append(GoalSeed(number, price, fixed, draw, humans, False))


def prepare(
    products: Iterable[Any],
    attributes: Mapping[str, Any],
    human: Mapping[str, Any],
    records: BinaryIO,
    *,
    seed: int = 0,
    tagger_name: str = HEURISTIC,
    limit: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Prepared:
    """The prepared catalogue, its records written to ``records`` one after the other.

    seed: of the prices of listings with a range, and of the bounds of the goals: those that the original draws after
    ``random.seed(seed)``, and those of the fixed mode. limit: read at most so many records.
    Raises RequestError where no product is left.
    """
    nouns = tagger(tagger_name)
    generator = random.Random(seed)
    report, index, goals = Report(), IndexBuilder(), _Goals(seed)
    categories, queries = _Codes(), _Codes()
    number_of: dict[str, int] = {}
    offsets, prices, fixed_prices = [0], [], []
    digest = hashlib.sha256()
    for raw in products:
        if limit is not None and report.read >= limit:
            break
        report.read += 1
        if report.read % 1000 == 0:
            progress(report.read)
        asin = raw.get("asin") if isinstance(raw, Mapping) else None
        if not isinstance(asin, str):
            report.note(f"record {report.read}", "asin", f"{asin!r:.80} is not text")
            continue
        reason = _skipped(asin, number_of)
        if reason:
            report.skipped[reason] += 1
            continue
        try:
            own = human.get(asin)
            if own is not None and not isinstance(own, list):
                raise BadRecord("instructions", f"{own!r:.80} is not a list")
            product = derive(raw, attributes.get(asin), own, nouns(str(raw.get("name"))))
            line = product.to_json().encode()
        except BadRecord as error:
            report.note(asin, error.field, str(error))
            continue
        except UnicodeError:
            report.note(asin, "text", "holds bytes that are not UTF-8")
            continue
        number = len(number_of)
        number_of[asin] = number
        records.write(line)
        digest.update(line)
        offsets.append(offsets[-1] + len(line))
        price = draw_price(product.prices, generator)
        prices.append(price)
        fixed_prices.append(product.prices[-1])
        categories.add(product.category)
        queries.add(product.query)
        index.add(analyze(product.contents))
        goals.add(number, product, price)
    report.kept = len(number_of)
    if not number_of:
        raise RequestError(
            f"the catalogue: none of its {report.read} records can be used; bad fields: {dict(report.bad)}"
        )
    asins = np.array(list(number_of), "U10")
    product_of = np.argsort(asins, kind="stable").astype(np.int32)
    rank = np.empty(len(asins), np.int32)
    rank[product_of] = np.arange(len(asins), dtype=np.int32)
    # The original makes one kind of goals a process, so each kind starts from the same state.
    state = generator.getstate()
    tables = {}
    for source, seeds in (("synthetic", goals.synthetic), ("human", goals.human)):
        generator.setstate(state)
        tables[source] = shuffled(synthetic_rows(seeds, generator))
    return Prepared(
        offsets=np.array(offsets, np.int64),
        asins=asins[product_of],
        product_of=product_of,
        prices_original=np.array(prices),
        prices_fixed=np.array(fixed_prices),
        category_codes=np.array(categories.codes, np.int32),
        query_codes=np.array(queries.codes, np.int32),
        goals_synthetic=tables["synthetic"],
        goals_human=tables["human"],
        index=index.build(rank),
        facts={
            "seed": seed,
            "tagger": tagger_name,
            "indexed": index.documents,
            "average_length": index.average_length,
            "categories": list(categories.names),
            "queries": list(queries.names),
            "records_sha256": digest.hexdigest(),
            "report": report.to_json(),
        },
    )


def _skipped(asin: str, known: Mapping[str, int]) -> str:
    """Why the original would pass the record over; empty if it would not."""
    if asin == "nan":
        return "asin is nan"
    if len(asin) > 10:
        return "asin is longer than 10 characters"
    return "asin is a duplicate" if asin in known else ""
