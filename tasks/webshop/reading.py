"""The original's catalogue files, or the same columns from a ``datasets`` hub name, read as streams.

Whatever is wrong with a single record is the caller's to count; what is wrong with a file as a whole (missing, not JSON, not
the expected shape) is a RequestError that names the file and the place.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import RequestError

_CHUNK = 1 << 20
_LONGEST_RECORD = 1 << 26
_SPACE = " \t\r\n"


class _Scanner:
    """A JSON text read piece by piece. Bytes that are not UTF-8 become lone surrogates, so that only their record is bad."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RequestError(f"{path}: cannot be read ({error.strerror}); accepted: a JSON file") from error
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._before = 0
        self._ended = False

    def close(self) -> None:
        self._file.close()

    def fail(self, message: str) -> RequestError:
        return RequestError(f"{self.path}: character {self._before + self._at}: {message}")

    def _more(self, size: int = _CHUNK) -> None:
        data = self._file.read(size)
        self._ended = not data
        self._before += self._at
        self._text = self._text[self._at :] + self._decoder.decode(data, final=not data)
        self._at = 0

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def take(self, expected: str) -> str:
        """Consume one of the expected characters."""
        found = self.peek()
        if not found or found not in expected:
            raise self.fail(f"found {found or 'the end of the file'!r}; accepted: one of {expected!r}")
        self._at += 1
        return found

    def value(self) -> tuple[Any, str]:
        """The next value, and its text."""
        self.peek()
        size = _CHUNK
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > _LONGEST_RECORD:
                    raise RequestError(
                        f"{self.path}: character {self._before + error.pos}: not valid JSON ({error.msg})"
                    ) from None
                self._more(size)
                size *= 2
                continue
            except RecursionError:
                raise self.fail("nested too deeply") from None
            if end == len(self._text) and not self._ended:
                # A number may go on in the next piece.
                self._more(size)
                continue
            text = self._text[self._at : end]
            self._at = end
            return value, text


def _array(path: Path) -> Iterator[Any]:
    scanner = _Scanner(path)
    try:
        scanner.take("[")
        if scanner.peek() == "]":
            return
        while True:
            yield scanner.value()[0]
            if scanner.take(",]") == "]":
                return
    finally:
        scanner.close()


def _object(path: Path) -> Iterator[tuple[str, str]]:
    scanner = _Scanner(path)
    try:
        scanner.take("{")
        if scanner.peek() == "}":
            return
        while True:
            key = scanner.value()[0]
            if not isinstance(key, str):
                raise scanner.fail(f"the key {key!r:.80} is not text")
            scanner.take(":")
            yield key, scanner.value()[1]
            if scanner.take(",}") == "}":
                return
    finally:
        scanner.close()


def _hub(source: str) -> Iterator[Any]:
    """Rows of a hub data set, of a folder of Parquet files, or of one."""
    from datasets import load_dataset

    try:
        path = Path(source)
        if path.is_dir() or path.suffix == ".parquet":
            files = str(path / "*.parquet") if path.is_dir() else source
            rows = load_dataset("parquet", data_files=files, split="train", streaming=True)
        else:
            rows = load_dataset(source, split="train", streaming=True)
        yield from rows
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{source}: cannot be read ({error}); accepted: a JSON file of the original's format, Parquet files, or a hub name"
        ) from error


def _is_json(source: str) -> bool:
    return source.endswith(".json") or (Path(source).is_file() and not source.endswith(".parquet"))


def read_products(source: str) -> Iterator[Any]:
    """Raw products, whatever their shape, in the order of the source."""
    if not _is_json(source):
        for row in _hub(source):
            options = row.get("customization_options")
            # Parquet has no free-form tables: such columns hold JSON.
            yield (
                {**row, "customization_options": json.loads(options)}
                if isinstance(options, str) and options
                else row
            )
        return
    yield from _array(Path(source))


class PackedTable(Mapping[str, Any]):
    """A table by asin whose values are kept as JSON text, to hold millions of them."""

    def __init__(self, entries: Iterator[tuple[str, str]]) -> None:
        self._entries = {asin: text.encode("utf-8", "surrogateescape") for asin, text in entries}

    def __getitem__(self, asin: str) -> Any:
        return json.loads(self._entries[asin].decode("utf-8", "surrogateescape"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def read_table(source: str) -> PackedTable:
    """The attribute file: entries by asin."""
    if not _is_json(source):
        return PackedTable((str(row.get("asin")), json.dumps(row)) for row in _hub(source))
    return PackedTable(_object(Path(source)))


def read_instructions(source: str) -> Mapping[str, Any]:
    """The file of human instructions, or rows of one instruction each: lists of entries by asin."""
    if _is_json(source):
        return PackedTable(_object(Path(source)))
    entries: dict[str, list[Any]] = {}
    for row in _hub(source):
        entries.setdefault(str(row.get("asin")), []).append(row)
    return entries
