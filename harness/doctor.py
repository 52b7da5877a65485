"""What this machine can do, found by doing it. Suites add probes of their own (``Suite.probes``)."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from harness.workers.local import available_cores


@dataclass(frozen=True, slots=True)
class Probe:
    """``remedy`` says what to install or change where it does not work."""

    name: str
    works: bool
    detail: str
    remedy: str = ""


def machine() -> list[Probe]:
    """Python, cores, torch and GPU."""
    import torch

    version = ".".join(map(str, sys.version_info[:3]))
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        if torch.cuda.is_available()
        else []
    )
    return [
        Probe("python", sys.version_info >= (3, 11), version, "Python 3.11 or newer"),
        Probe("cores", True, f"{available_cores()} (one worker each by default)"),
        Probe("torch", _multiplies(), torch.__version__, "pip install torch"),
        Probe(
            "gpu",
            bool(gpus),
            ", ".join(gpus) or "none: the embedded policy runs on the CPU",
            "" if gpus else "a CUDA build of torch and a GPU",
        ),
    ]


def _multiplies() -> bool:
    import torch

    return bool(torch.equal(torch.ones(2, 2) @ torch.ones(2, 2), torch.full((2, 2), 2.0)))
