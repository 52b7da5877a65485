"""Command output as an agent sees it: from bytes, possibly cut in the middle, to clean text."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    rb"|[\]PX^_].*?(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: strings up to their terminator
    rb"|[ -/]+[0-~]"  # charset selection and the like
    rb"|[0-Z\\^_`a-~]"  # two-byte sequences
    rb")",
    re.DOTALL,
)
_CUT_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?\Z")


def clean(data: bytes) -> str:
    """Without ANSI sequences, carriage returns and NUL bytes; undecodable bytes become U+FFFD."""
    return _ESCAPE.sub(b"", data).replace(b"\r", b"").replace(b"\0", b"").decode(errors="replace")


def joined(head: bytes, tail: bytes, total_bytes: int) -> str:
    """The kept parts of an output of ``total_bytes``, with a line in between that says what is missing."""
    missing = total_bytes - len(head) - len(tail)
    if missing <= 0:
        return clean(head + tail)
    head = _CUT_ESCAPE.sub(b"", head)
    return f"{clean(head)}\n[... {missing} bytes left out ...]\n{clean(tail)}"
