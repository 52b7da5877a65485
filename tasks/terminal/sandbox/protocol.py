"""The bytes that travel between harness and guest (``guest.pl`` describes the frames). Pure functions."""

from __future__ import annotations

import os
import struct
from collections.abc import Container, Mapping, Sequence
from signal import SIGXFSZ

from harness.errors import EnvironmentFault
from tasks.terminal.filetree import Entry, FileTree
from tasks.terminal.sandbox.interface import CommandResult, SandboxLimits, VerifyResult
from tasks.terminal.sandbox.text import joined

HEADER = struct.Struct(">c8sI")
_RESULT = struct.Struct(">HBIQ")
_ENTRY = struct.Struct(">cHIQI")
_KINDS = {"file": b"f", "dir": b"d", "link": b"l"}
_KIND_OF = {b"f": "file", b"d": "dir", b"l": "link", b"o": "other"}

FIRST_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/home/user",
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
"""What the agent's first shell finds. TERM is dumb because there is no terminal."""

# Numbers of Linux's resource limits; equal on x86-64 and AArch64.
_FSIZE, _CORE, _NPROC, _NOFILE, _AS, _MSGQUEUE = 1, 4, 6, 7, 9, 12


def frame(kind: bytes, nonce: bytes, payload: bytes) -> bytes:
    return HEADER.pack(kind, nonce, len(payload)) + payload


def init_payload(limits: SandboxLimits, whole: Container[str], disks: Sequence[str]) -> bytes:
    """``whole``: what a cgroup bounds for the sandbox as a whole (``memory``, ``pids``); the rest is bounded by what the
    kernel can bound per process and per user. ``disks``: the writable file systems."""
    megabyte = 1 << 20
    rlimits = {
        # Where a cgroup counts processes, it must be the one to refuse, because it also says that it did.
        _NPROC: limits.pids * 2 if "pids" in whole else limits.pids,
        _FSIZE: limits.file_size_mb * megabyte,
        _NOFILE: limits.open_files,
        _CORE: 0,
        _MSGQUEUE: 0,
    }
    if "memory" not in whole:
        rlimits[_AS] = limits.memory_mb * megabyte
    script = "shopt -s expand_aliases\n" + "".join(
        f"declare -x {name}='{value}'\n" for name, value in FIRST_ENVIRONMENT.items()
    )
    fixed = (limits.output_bytes, limits.pids, " ".join(f"{k}={v}" for k, v in rlimits.items()), script)
    return "\0".join([*map(str, fixed), *disks]).encode()


def run_payload(command: str | bytes, timeout_s: float) -> bytes:
    """NUL bytes are dropped, as bash itself drops them from scripts."""
    data = command.encode(errors="surrogateescape") if isinstance(command, str) else command
    return struct.pack(">I", max(1, round(timeout_s * 1000))) + data.replace(b"\0", b"")


def tree_payload(tree: FileTree) -> bytes:
    """Parents before children. Raises EnvironmentFault for an entry that cannot be made."""
    parts = []
    for path in sorted(tree):
        entry = tree[path]
        if not path.startswith("/") or os.path.normpath(path) != path:
            raise EnvironmentFault(f"file {path!r} of the task: the path must be absolute and normalised")
        if entry.kind == "file":
            content = entry.content
        elif entry.kind == "link":
            content = os.fsencode(entry.target) if entry.target else None
        else:
            content = b"" if entry.kind == "dir" else None
        if content is None:
            raise EnvironmentFault(
                f"file {path!r} of the task: a {entry.kind} without content cannot be made"
            )
        name = os.fsencode(path)
        parts.append(struct.pack(">cHI", _KINDS[entry.kind], entry.mode, len(name)) + name)
        parts.append(struct.pack(">I", len(content)) + content)
    return b"".join(parts)


def snapshot_payload(
    roots: Sequence[str], max_entries: int, max_bytes_per_file: int, max_total_bytes: int
) -> bytes:
    return struct.pack(">IQQ", max_entries, max_bytes_per_file, max_total_bytes) + b"\0".join(
        os.fsencode(os.path.normpath(root)) for root in roots
    )


def verify_payload(tree: FileTree, argv: Sequence[str], timeout_s: float) -> bytes:
    arguments, files = b"\0".join(os.fsencode(a) for a in argv), tree_payload(tree)
    return (
        struct.pack(
            f">II{len(arguments)}sI", max(1, round(timeout_s * 1000)), len(arguments), arguments, len(files)
        )
        + files
    )


def _fields(payload: bytes) -> tuple[int, bool, float, int, list[bytes]]:
    status, timed_out, microseconds, total = _RESULT.unpack_from(payload)
    at, strings = _RESULT.size, []
    while at < len(payload):
        (length,) = struct.unpack_from(">I", payload, at)
        strings.append(payload[at + 4 : at + 4 + length])
        at += 4 + length
    return status, bool(timed_out), microseconds / 1e6, total, strings


def command_result(payload: bytes) -> CommandResult:
    """``exit_code`` from the wait status: the code, or 128 + signal."""
    status, timed_out, duration_s, total, (head, tail, limit) = _fields(payload)
    refused = limit.startswith(b"process limit")
    return CommandResult(
        exit_code=None if timed_out or refused else _exit_code(status),
        output=joined(head, tail, total),
        total_bytes=total,
        timed_out=timed_out,
        limit="file size limit reached" if _exit_code(status) == 128 + SIGXFSZ else limit.decode() or None,
        duration_s=duration_s,
    )


def verify_result(payload: bytes) -> VerifyResult:
    status, timed_out, _, total, (head, tail, _) = _fields(payload)
    return VerifyResult(None if timed_out else _exit_code(status), joined(head, tail, total), timed_out)


def _exit_code(wait_status: int) -> int:
    signal = wait_status & 0x7F
    return 128 + signal if signal else wait_status >> 8


def snapshot_tree(payload: bytes) -> dict[str, Entry]:
    tree: dict[str, Entry] = {}
    at = 0
    while at < len(payload):
        kind, mode, links, size, name_length = _ENTRY.unpack_from(payload, at)
        at += _ENTRY.size
        path = os.fsdecode(payload[at : at + name_length])
        at += name_length
        content: bytes | None = None
        if payload[at]:
            (length,) = struct.unpack_from(">I", payload, at + 1)
            content = payload[at + 5 : at + 5 + length]
            at += 4 + length
        at += 1
        target = os.fsdecode(content) if kind == b"l" and content is not None else None
        tree[path] = Entry(
            _KIND_OF[kind],  # type: ignore[arg-type]
            mode,
            content=content if kind == b"f" else None,
            target=target,
            size=size,
            links=links,
        )
    return tree
