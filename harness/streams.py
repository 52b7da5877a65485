"""Named random streams. Every random draw of a run comes from one of these, derived by hashing from the run seed.

``stream(seed, "tasks", version, member)`` is independent of every stream of another name or another seed, and depends
on neither the order of the calls nor PYTHONHASHSEED.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(run_seed: int, *name: str | int) -> int:
    """A 64-bit unsigned integer that is a pure function of ``(run_seed, *name)``. Parts are told apart by type."""
    digest = hashlib.sha256(b"async-es-bench/stream/1")
    for part in (run_seed, *name):
        encoded = f"{'i' if isinstance(part, int) else 's'}:{part}".encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return int.from_bytes(digest.digest()[:8], "little")


def stream(run_seed: int, *name: str | int) -> np.random.Generator:
    """A numpy generator (Philox) for the stream ``name`` of the run."""
    return np.random.Generator(np.random.Philox(key=derive(run_seed, *name)))
