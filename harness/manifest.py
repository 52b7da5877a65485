"""What a run was made with: code, packages, hardware, model, tasks, seeds, command line."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "async-es-bench",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "numba",
    "scipy",
    "vllm",
    "ray",
)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def code_version() -> dict[str, Any]:
    """Commit and dirty flag of the checkout this package runs from; nulls for an installed wheel."""
    folder = Path(__file__).resolve().parent
    if _git(folder, "ls-files", "--error-unmatch", "manifest.py") is None:
        return {"commit": None, "dirty": None}
    status = _git(folder.parent, "status", "--porcelain")
    return {
        "commit": _git(folder, "rev-parse", "HEAD"),
        "dirty": bool(status) if status is not None else None,
    }


def package_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def hardware() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in cpuinfo.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mb": pages // 2**20,
        "gpus": [],
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return facts


def folder_sha256(folder: Path) -> str:
    """Hash of a model folder: names and bytes of its files, sorted, cards (``*.md``) left out."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".md" and not path.name.startswith("."):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def manifest(
    experiment_sha256: str, seed: int, suite: Mapping[str, Any], model: str | Path, command: list[str]
) -> dict[str, Any]:
    """The content of ``manifest.json``."""
    local = Path(model)
    return {
        "format": 1,
        "command": command,
        "config_sha256": experiment_sha256,
        "seed": seed,
        "code": code_version(),
        "packages": package_versions(),
        "hardware": hardware(),
        "suite": dict(suite),
        "model": {"name": local.name if local.is_dir() else str(model)}
        | ({"sha256": folder_sha256(local)} if local.is_dir() else {}),
    }
