"""The catalogue that a shop is opened with: products, prices, goals and search over a prepared catalogue."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import RequestError
from tasks.webshop.analyzer import analyze
from tasks.webshop.goals import Goal, GoalSource, goal_of
from tasks.webshop.nouns import HEURISTIC
from tasks.webshop.prepare import prepare
from tasks.webshop.product import Product
from tasks.webshop.reward import Compat
from tasks.webshop.search import MAX_RESULTS, SearchIndex
from tasks.webshop.stored import RECORDS, Prepared, load, new_folder, save

CACHED_PRODUCTS = 4096
CACHED_SEARCHES = 1024


class Catalogue:
    """Read-only; safe to share between any number of sessions of a process. Products are numbered as they were read."""

    def __init__(self, prepared: Prepared, records: Any) -> None:
        self._prepared = prepared
        self._records = records
        self._index = SearchIndex(prepared.index, prepared.facts["indexed"], prepared.facts["average_length"])
        self.product = lru_cache(maxsize=CACHED_PRODUCTS)(self._product)
        self.search = lru_cache(maxsize=CACHED_SEARCHES)(self._search)

    @classmethod
    def open(cls, folder: Path, verify: bool | None = None) -> Catalogue:
        """Open a folder that :func:`write` made. Raises RequestError."""
        return cls(*load(folder, verify))

    @classmethod
    def in_memory(
        cls,
        products: Iterable[Any],
        attributes: Mapping[str, Any],
        human: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        tagger_name: str = HEURISTIC,
    ) -> Catalogue:
        """A small catalogue that is never written."""
        records = io.BytesIO()
        prepared = prepare(products, attributes, human or {}, records, seed=seed, tagger_name=tagger_name)
        return cls(prepared, records.getvalue())

    def __len__(self) -> int:
        return len(self._prepared.product_of)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Seed, tagger, report of the preparation, categories and queries."""
        return self._prepared.facts

    def sha256(self) -> str:
        """Of its content."""
        return str(self.facts.get("sha256") or self._prepared.content_sha256())

    def _product(self, number: int) -> Product:
        begin, end = self._prepared.offsets[number : number + 2].tolist()
        return Product.from_json(self._records[begin:end])

    def number(self, asin: str) -> int | None:
        """The product of an asin (its case counts), or None."""
        asins = self._prepared.asins
        at = int(np.searchsorted(asins, asin))
        return int(self._prepared.product_of[at]) if at < len(asins) and asins[at] == asin else None

    def price(self, number: int, compat: Compat) -> float:
        """What the product costs: in ``original`` a ranged price was drawn, in ``fixed`` it is the top of the range."""
        prices = self._prepared.prices_original if compat == "original" else self._prepared.prices_fixed
        return float(prices[number])

    def _search(self, keywords: str) -> tuple[int, ...]:
        """Numbers of the best 50 products for a bag of words, best first."""
        found = self._index.search(analyze(keywords), MAX_RESULTS)
        return tuple(int(self._prepared.product_of[document]) for document, _ in found)

    def scored(self, keywords: str) -> list[tuple[int, float]]:
        """As ``search``, with scores."""
        found = self._index.search(analyze(keywords), MAX_RESULTS)
        return [(int(self._prepared.product_of[document]), score) for document, score in found]

    def of_category(self, category: str) -> tuple[int, ...]:
        """Every product of a category, in the order in which they were read."""
        return self._with_code(self.facts["categories"], self._prepared.category_codes, category)

    def of_query(self, query: str) -> tuple[int, ...]:
        """Every product that was found under this query."""
        return self._with_code(self.facts["queries"], self._prepared.query_codes, query)

    def _with_code(self, names: Sequence[str], codes: NDArray[np.int32], name: str) -> tuple[int, ...]:
        return tuple(np.flatnonzero(codes == names.index(name)).tolist()) if name in names else ()

    def _goals(self, source: GoalSource) -> NDArray[np.void]:
        return self._prepared.goals_synthetic if source == "synthetic" else self._prepared.goals_human

    def goal_count(self, source: GoalSource) -> int:
        return len(self._goals(source))

    def goal_weights(self, source: GoalSource) -> NDArray[np.float64]:
        return np.asarray(self._goals(source)["weight"])

    def goal(self, index: int, source: GoalSource, compat: Compat) -> Goal:
        """Goal ``index``, in the fixed order. Raises RequestError where there is none."""
        rows = self._goals(source)
        if not 0 <= index < len(rows):
            raise RequestError(
                f"goal {index} ({source}): there is none; accepted: 0 to {len(rows) - 1}"
                if len(rows)
                else f"the catalogue has no {source} goals; accepted: prepare it with the file that holds them"
            )
        row = rows[index]
        return goal_of(row, index, self.product(int(row["product"])), source, compat)


def write(
    folder: Path,
    products: Iterable[Any],
    attributes: Mapping[str, Any],
    human: Mapping[str, Any],
    *,
    seed: int = 0,
    tagger_name: str = HEURISTIC,
    limit: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Prepare a catalogue in a new folder; the facts about it. Nothing is left behind where it fails."""
    with new_folder(folder) as temporary:
        with (temporary / RECORDS).open("wb") as records:
            prepared = prepare(
                products,
                attributes,
                human,
                records,
                seed=seed,
                tagger_name=tagger_name,
                limit=limit,
                progress=progress,
            )
        save(prepared, temporary)
    return prepared.facts
