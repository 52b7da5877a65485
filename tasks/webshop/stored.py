"""A prepared catalogue on disk: a folder of memory-mapped arrays, the products' records, and facts with a SHA-256 of each file."""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import files
from harness.errors import InfrastructureError, RequestError
from tasks.webshop.search import IndexArrays

FORMAT = 1
FACTS = "catalogue.json"
RECORDS = "records.bin"
VERIFIED_BYTES = 64 << 20
"""Up to this size, hashes are compared whenever a catalogue is opened; above, only sizes."""

_COLUMNS = (
    *("offsets", "asins", "product_of", "prices_original", "prices_fixed", "category_codes", "query_codes"),
    *("goals_synthetic", "goals_human"),
)
_INDEX = ("term_text", "term_starts", "starts", "postings", "frequencies", "length_codes")


@dataclass(frozen=True, slots=True)
class Prepared:
    """``offsets``: of the records, one more than there are products. ``asins``: sorted; ``product_of[i]`` is the product of
    ``asins[i]``, which is document ``i`` of the index. The other columns are in the order of the products or goals."""

    offsets: NDArray[np.int64]
    asins: NDArray[np.str_]
    product_of: NDArray[np.int32]
    prices_original: NDArray[np.float64]
    prices_fixed: NDArray[np.float64]
    category_codes: NDArray[np.int32]
    query_codes: NDArray[np.int32]
    goals_synthetic: NDArray[np.void]
    goals_human: NDArray[np.void]
    index: IndexArrays
    facts: dict[str, Any]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every array by the name of its file."""
        for name in _COLUMNS:
            yield name, getattr(self, name)
        for name in _INDEX:
            yield f"index_{name}", getattr(self.index, name)

    def content_sha256(self) -> str:
        """Of all that decides what the shop does, wherever it is stored."""
        digest = hashlib.sha256(self.facts["records_sha256"].encode())
        for name, array in self.arrays():
            digest.update(name.encode() + hashlib.sha256(np.ascontiguousarray(array).data).digest())
        decisive = {
            key: self.facts[key] for key in ("tagger", "indexed", "average_length", "categories", "queries")
        }
        digest.update(json.dumps(decisive, sort_keys=True).encode())
        return digest.hexdigest()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder that appears as ``target`` when all of it is written, or not at all. Raises RequestError where it exists."""
    if target.exists():
        raise RequestError(f"--out {target}: exists; accepted: a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise RequestError(
            f"--out {target}: cannot be made ({error.strerror}); accepted: a new folder"
        ) from error
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(target)
    except OSError as error:
        raise InfrastructureError(f"{target}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def save(prepared: Prepared, folder: Path) -> None:
    """Write all but the records, which are in ``folder`` already."""
    for name, array in prepared.arrays():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    hashes = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            hashes[path.name] = {
                "bytes": path.stat().st_size,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
    facts = {"format": FORMAT, **prepared.facts, "sha256": prepared.content_sha256(), "files": hashes}
    files.write_json(folder / FACTS, facts)


def load(folder: Path, verify: bool | None = None) -> tuple[Prepared, mmap.mmap]:
    """A prepared catalogue and its records, mapped into memory. Raises RequestError where it is not one, or is damaged.

    verify: compare the hash of every file; by default when they are no more than 64 MiB in all.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        listed = facts["files"]
        version = facts["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"{folder}: not a prepared catalogue ({FACTS}: {error}); accepted: a folder that `bench webshop prepare` wrote"
        ) from error
    if version != FORMAT:
        raise RequestError(f"{folder / FACTS}: format = {version!r}; accepted: {FORMAT}; prepare it anew")
    if verify is None:
        verify = sum(entry["bytes"] for entry in listed.values()) <= VERIFIED_BYTES
    arrays: dict[str, Any] = {}
    try:
        for name, entry in listed.items():
            path = folder / name
            if path.stat().st_size != entry["bytes"]:
                raise RequestError(
                    f"{path}: {path.stat().st_size} bytes; accepted: {entry['bytes']}; prepare it anew"
                )
            if verify:
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != entry["sha256"]:
                    raise RequestError(f"{path}: its SHA-256 is not the recorded one; prepare it anew")
        for name in (*_COLUMNS, *(f"index_{name}" for name in _INDEX)):
            arrays[name] = _map(folder / f"{name}.npy")
        with (folder / RECORDS).open("rb") as file:
            records = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise RequestError(f"{folder}: damaged ({error}); prepare it anew") from error
    index = IndexArrays(*(arrays.pop(f"index_{name}") for name in _INDEX))
    return Prepared(**arrays, index=index, facts=facts), records


def _map(path: Path) -> NDArray[Any]:
    """An array as a plain view of its mapped file (a memmap object costs at every slice)."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)).view(np.ndarray)
