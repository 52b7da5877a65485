"""Compiled loops of the search over large indexes; imported when one is first searched."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def add_term(
    scores: NDArray[np.float64],
    documents: NDArray[np.int32],
    frequencies: NDArray[np.uint16],
    codes: NDArray[np.uint8],
    norms: NDArray[np.float32],
    weight: Any,
) -> None:
    """Add what a term of ``weight`` (single precision) gives to each of its documents."""
    one = np.float32(1.0)
    for place in range(len(documents)):
        document = documents[place]
        strength = np.float32(frequencies[place]) * norms[codes[document]]
        scores[document] += weight - weight / (one + strength)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def take_best(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Documents whose score is among the ``limit`` best in single precision, and those that tie with the last of them, in
    ascending order. Documents without a score are not among them."""
    heap = np.zeros(limit, np.float32)  # a heap with the smallest of the best on top
    for score in scores:
        value = np.float32(score)
        if value > heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= limit:
                    break
                if child + 1 < limit and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = value
    least = heap[0]
    count = 0
    for score in scores:
        value = np.float32(score)
        if value > 0 and value >= least:
            count += 1
    found = np.empty(count, np.int64)
    count = 0
    for document in range(len(scores)):
        value = np.float32(scores[document])
        if value > 0 and value >= least:
            found[count] = document
            count += 1
    return found
