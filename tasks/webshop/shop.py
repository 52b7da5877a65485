"""Which catalogue a process shops in: a prepared folder, or the generated one, made once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from harness.errors import BenchError, RequestError
from tasks.webshop.catalogue import Catalogue, write
from tasks.webshop.generator.generate import products, tables

GENERATED = "generated"

_MAKERS = (
    *(
        "generator/generate.py",
        "generator/kinds.py",
        "analyzer.py",
        "goals.py",
        "nouns.py",
        "porter.py",
        "prepare.py",
    ),
    *("prices.py", "product.py", "search.py", "stored.py"),
)


def _code_sha256() -> str:
    """Of the code that decides what a generated catalogue holds."""
    digest = hashlib.sha256()
    for name in _MAKERS:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "async-es-bench" / "webshop"


@lru_cache(maxsize=4)
def generated(count: int, seed: int) -> Catalogue:
    """The generated catalogue: from the cache, else made (and kept where that can be written)."""
    folder = _cache() / f"generated-{count}-{seed}-{_code_sha256()[:16]}"
    try:
        if not folder.exists():
            write(folder, products(count, seed), *tables(count, seed))
        return Catalogue.open(folder)
    except (BenchError, OSError):
        return Catalogue.in_memory(products(count, seed), *tables(count, seed))


@lru_cache(maxsize=4)
def _opened(folder: Path) -> Catalogue:
    return Catalogue.open(folder)


def open_catalogue(source: str, count: int, seed: int) -> Catalogue:
    """``generated`` (of ``count`` products from ``seed``), or a folder of ``bench webshop prepare``. Raises RequestError."""
    if source == GENERATED:
        return generated(count, seed)
    if not Path(source).is_dir():
        raise RequestError(
            f"suite.catalogue = {source!r}: there is no such folder; accepted: {GENERATED!r}, or a folder that "
            "`bench webshop prepare` wrote"
        )
    return _opened(Path(source).resolve())
