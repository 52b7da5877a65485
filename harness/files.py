"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError


def write_bytes(path: Path, data: bytes) -> None:
    """Write next to ``path``, sync, then rename over it. Raises InfrastructureError, and leaves nothing, when the disk refuses."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: cannot be written ({error.strerror})") from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")
