"""The search index: BM25 as Anserini computes it over Lucene 8, in single precision, ties in the order of the asins.

``score(d) = sum over query terms of w - w / (1 + tf * n(d))`` with ``w = idf * (times in the query)``,
``idf = ln(1 + (N - df + 0.5) / (df + 0.5))`` and ``n(d) = 1 / (k1 * (1 - b + b * dl / avgdl))``; ``dl`` is the document's
length in terms after Lucene's lossy one-byte code, ``avgdl`` is exact. Documents are numbered in the order of their asins.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)
MAX_RESULTS = 50

_FREE_CODES = 24
_CACHED_BYTES = 32 << 20
_COMPILED = 20_000
"""Indexes of more documents are searched by compiled loops."""


def length_code(length: int) -> int:
    """Lucene's one-byte code of a length: exact up to 40, then three bits of mantissa."""
    if length < _FREE_CODES:
        return length
    value = length - _FREE_CODES
    shift = max(0, value.bit_length() - 4)
    code = value if value.bit_length() < 4 else ((value >> shift) & 7) | ((shift + 1) << 3)
    return _FREE_CODES + code


def decoded_length(code: int) -> int:
    """The length that a code stands for."""
    if code < _FREE_CODES:
        return code
    code -= _FREE_CODES
    mantissa, shift = code & 7, (code >> 3) - 1
    return _FREE_CODES + (mantissa if shift == -1 else (mantissa | 8) << shift)


@dataclass(frozen=True, slots=True)
class IndexArrays:
    """What is stored: ``postings[starts[t]:starts[t + 1]]`` are the documents of term ``t``, ascending, ``frequencies`` how often
    they hold it. Terms are sorted; term ``t`` is ``term_text[term_starts[t]:term_starts[t + 1]]`` in UTF-8."""

    term_text: NDArray[np.uint8]
    term_starts: NDArray[np.int64]
    starts: NDArray[np.int64]
    postings: NDArray[np.int32]
    frequencies: NDArray[np.uint16]
    length_codes: NDArray[np.uint8]


def _norms(average_length: float) -> NDArray[np.float32]:
    """``n(d)`` by length code."""
    lengths = np.array([decoded_length(code) for code in range(256)], np.float32)
    average = np.float32(average_length)
    norms = np.float32(1) / (K1 * ((np.float32(1) - B) + B * lengths / average))
    return np.asarray(norms, np.float32)


class IndexBuilder:
    """Collects documents in any order; :meth:`build` numbers them."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._chunks: list[tuple[NDArray[np.int32], NDArray[np.uint16]]] = []
        self._ids: list[int] = []
        self._counts: list[int] = []
        self._distinct: list[int] = []
        self._codes = bytearray()
        self.total_length = 0
        self.documents = 0

    def add(self, terms: Sequence[str]) -> None:
        """The next document, by its terms."""
        counted = Counter(terms)
        known = self._terms
        self._ids.extend(known.setdefault(term, len(known)) for term in counted)
        self._counts.extend(min(count, 65_535) for count in counted.values())
        self._distinct.append(len(counted))
        self._codes.append(length_code(len(terms)))
        self.total_length += len(terms)
        self.documents += bool(terms)
        if len(self._ids) > 1_000_000:
            self._pack()

    def _pack(self) -> None:
        self._chunks.append((np.array(self._ids, np.int32), np.array(self._counts, np.uint16)))
        self._ids, self._counts = [], []

    def build(self, rank: NDArray[np.int32]) -> IndexArrays:
        """``rank[i]`` is the number that the ``i``-th document added gets."""
        self._pack()
        names = sorted(self._terms)
        renumber = np.empty(len(names), np.int32)
        renumber[[self._terms[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        ids = renumber[np.concatenate([chunk[0] for chunk in self._chunks])]
        counts = np.concatenate([chunk[1] for chunk in self._chunks])
        self._chunks = []
        documents = np.repeat(rank, np.array(self._distinct, np.int64))
        # One sort key: term above, document below.
        order = np.argsort((ids.astype(np.int64) << 32) | documents, kind="stable")
        starts = np.zeros(len(names) + 1, np.int64)
        np.cumsum(np.bincount(ids, minlength=len(names)), out=starts[1:])
        codes = np.empty(len(rank), np.uint8)
        codes[rank] = np.frombuffer(bytes(self._codes), np.uint8)
        encoded = [name.encode() for name in names]
        term_starts = np.zeros(len(names) + 1, np.int64)
        np.cumsum([len(name) for name in encoded], out=term_starts[1:])
        text = np.frombuffer(b"".join(encoded), np.uint8)
        documents, counts = documents[order], counts[order]
        return IndexArrays(text, term_starts, starts, documents, counts, codes)

    @property
    def average_length(self) -> float:
        """Terms per document that has any."""
        return self.total_length / max(1, self.documents)


class SearchIndex:
    """``documents``: those with at least one term. ``average_length``: of them, in terms."""

    def __init__(self, arrays: IndexArrays, documents: int, average_length: float) -> None:
        self._arrays = arrays
        self._documents = documents
        self._norms = _norms(average_length)
        self._scores = np.zeros(len(arrays.length_codes))
        self._cache: OrderedDict[tuple[int, int], tuple[NDArray[np.int32], NDArray[np.float64]]] = (
            OrderedDict()
        )
        self._cached = 0
        self._number = lru_cache(maxsize=65_536)(self._find)

    def _find(self, term: str) -> int:
        """The number of a term; -1 for one that no document has."""
        wanted = term.encode()
        text, starts = self._arrays.term_text, self._arrays.term_starts
        low, high = 0, len(starts) - 1
        while low < high:
            middle = (low + high) // 2
            if text[starts[middle] : starts[middle + 1]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        if low < len(starts) - 1 and text[starts[low] : starts[low + 1]].tobytes() == wanted:
            return low
        return -1

    def _weight(self, term: int, times: int) -> np.float32:
        df = int(self._arrays.starts[term + 1] - self._arrays.starts[term])
        idf = np.float32(np.log(1 + (self._documents - df + 0.5) / (df + 0.5)))
        return np.float32(np.float32(times) * idf)

    def _gain(
        self, weight: np.float32, frequencies: NDArray[np.uint16], documents: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        norms = self._norms[self._arrays.length_codes[documents]]
        one = np.float32(1)
        return (weight - weight / (one + frequencies.astype(np.float32) * norms)).astype(np.float64)

    def _list(self, term: int, times: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Documents of a term and what it adds to their scores; recently used ones are kept."""
        key = (term, times)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        begin, end = self._arrays.starts[term], self._arrays.starts[term + 1]
        documents = np.asarray(self._arrays.postings[begin:end])
        gains = self._gain(self._weight(*key), self._arrays.frequencies[begin:end], documents)
        self._cache[key] = (documents, gains)
        self._cached += gains.nbytes
        while self._cached > _CACHED_BYTES and len(self._cache) > 1:
            self._cached -= self._cache.popitem(last=False)[1][1].nbytes
        return documents, gains

    def search(self, terms: Sequence[str], limit: int = MAX_RESULTS) -> list[tuple[int, float]]:
        """``(document, score)`` of the best, best first. Documents that hold none of the terms are not found."""
        counted = Counter(number for number in map(self._number, terms) if number >= 0)
        if not counted:
            return []
        if len(self._scores) > _COMPILED:
            return self._best(*self._sum_compiled(counted, limit), limit)
        scores = np.zeros(len(self._scores))
        for term, times in counted.items():
            documents, gains = self._list(term, times)
            scores[documents] += gains
        found = np.flatnonzero(scores)
        return self._best(found, scores[found], limit)

    def _sum_compiled(
        self, counted: Mapping[int, int], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Documents that can be among the best, and their scores."""
        from tasks.webshop.kernels import add_term, take_best

        arrays, scores = self._arrays, self._scores
        for term, times in counted.items():
            part = slice(arrays.starts[term], arrays.starts[term + 1])
            add_term(
                scores,
                arrays.postings[part],
                arrays.frequencies[part],
                arrays.length_codes,
                self._norms,
                self._weight(term, times),
            )
        found = take_best(scores, limit)
        values = scores[found]
        scores[:] = 0
        return found, values

    @staticmethod
    def _best(found: NDArray[np.int64], scores: NDArray[np.float64], limit: int) -> list[tuple[int, float]]:
        values = scores.astype(np.float32)
        if len(found) > 4 * limit:
            threshold = np.partition(values, len(values) - limit)[len(values) - limit]
            keep = values >= threshold
            found, values = found[keep], values[keep]
        order = np.lexsort((found, -values))[:limit]
        return list(zip(found[order].tolist(), values[order].tolist(), strict=True))
