"""What ``bench doctor`` says about sandboxes: every line is the outcome of a trial, with what to install where it failed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from harness.errors import InfrastructureError
from tasks.terminal.sandbox import cgroups, seccomp
from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend


@dataclass(frozen=True, slots=True)
class Probe:
    """``detail``: what was found. ``remedy``: what to do where it does not work; empty otherwise."""

    name: str
    works: bool
    detail: str
    remedy: str = ""


def probes() -> list[Probe]:
    """Try everything that sandboxes are made of; a few seconds at most. Not to be called where an event loop runs."""
    return [_bubblewrap(), _guest(), _seccomp(), _cgroups(), _docker()]


def _bubblewrap() -> Probe:
    try:
        backend = BubblewrapBackend()
    except InfrastructureError as error:
        return Probe(
            "bubblewrap",
            False,
            str(error),
            "apt install bubblewrap (on Ubuntu 24.04 its package brings the AppArmor profile that user namespaces need); "
            "inside a container, allow user namespaces or use --sandbox docker",
        )
    try:
        found = backend.probe()
    except InfrastructureError as error:
        return Probe("bubblewrap", False, str(error), "see the message of bubblewrap")
    finally:
        backend.close()
    return Probe("bubblewrap", True, f"{found.what}; limits seen to hold: {', '.join(found.limits_enforced)}")


def _guest() -> Probe:
    missing = [
        name for name in ("perl", "bash") if not shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
    ]
    return Probe(
        "guest",
        not missing,
        "perl and bash are under /usr" if not missing else f"missing: {', '.join(missing)}",
        f"apt install {' '.join(missing)}" if missing else "",
    )


def _seccomp() -> Probe:
    try:
        size = len(seccomp.program()) // 8
    except InfrastructureError as error:
        return Probe("seccomp", False, str(error), "use an x86-64 or AArch64 machine")
    enabled = os.path.exists("/proc/sys/kernel/seccomp/actions_avail")
    detail = f"a filter of {size} instructions" if enabled else "the kernel has no seccomp filters"
    return Probe("seccomp", enabled, detail, "" if enabled else "use a kernel with CONFIG_SECCOMP_FILTER")


def _cgroups() -> Probe:
    found = cgroups.hierarchies()
    if found:
        return Probe("cgroups", True, "; ".join(f"v{h.version} {'+'.join(h.controllers)}" for h in found))
    return Probe(
        "cgroups",
        False,
        "no cgroup can be made: memory is bounded per process, processes per user",
        "run as root, or under `systemd-run --user --scope -p Delegate=yes`",
    )


def _docker() -> Probe:
    remedy = "apt install docker.io, and join the group docker (only --sandbox docker needs it)"
    try:
        import docker
    except ImportError as error:
        return Probe("docker", False, str(error), "pip install docker")
    try:
        client = docker.from_env(timeout=5)
        try:
            version = client.version()["Version"]
        finally:
            client.close()
    except (docker.errors.DockerException, OSError) as error:
        return Probe("docker", False, f"no daemon answers: {error}", remedy)
    return Probe("docker", True, f"daemon {version}")
