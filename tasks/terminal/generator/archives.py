"""Archives as initial files: the same bytes from the same content, whatever the clock."""

from __future__ import annotations

import io
import tarfile

from tasks.terminal.filetree import Entry


def tar_of(members: dict[str, str]) -> Entry:
    """A tar of text files, with fixed times and owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as bundle:
        for name, text in members.items():
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime, info.uid, info.gid = len(data), 0o644, 1_600_000_000, 1000, 1000
            bundle.addfile(info, io.BytesIO(data))
    content = buffer.getvalue()
    return Entry("file", 0o644, content=content, size=len(content))
