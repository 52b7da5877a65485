"""Starting: which binary, which words when it does not work, and what the trial says."""

import asyncio
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, RequestError
from tasks.terminal.sandbox import binary, bubblewrap, cgroups
from tasks.terminal.sandbox.bubblewrap import BubblewrapBackend
from tasks.terminal.sandbox.doctor import probes
from tasks.terminal.sandbox.interface import SandboxLimits
from tasks.terminal.sandbox.select import select_backend


def test_the_guest_compiles_with_all_checks_of_perl_and_without_a_warning():
    source = resources.files("tasks.terminal.sandbox").joinpath("guest.pl").read_text()
    done = subprocess.run(
        ["perl", "-Mstrict", "-Mwarnings", "-c"], input=source, capture_output=True, text=True, check=False
    )
    assert done.stderr == "- syntax OK\n"


def test_the_trial_sees_every_limit_hold(backend):
    found = backend.probe()
    assert found.works
    assert found.limits_enforced == ("memory", "processes", "disk", "file size")


def test_without_cgroups_the_kernels_other_limits_hold(backend, monkeypatch):
    monkeypatch.setattr(cgroups, "hierarchies", lambda: ())
    plain = BubblewrapBackend()
    try:
        found = plain.probe()
    finally:
        plain.close()
    assert "no cgroup" in found.what
    assert found.limits_enforced == ("memory", "processes", "disk", "file size")


def test_a_binary_that_does_not_work_is_passed_over(backend, monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    working = list(binary.candidates())
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([broken, *working]))
    chosen = BubblewrapBackend()
    chosen.close()
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([broken]))
    with pytest.raises(
        InfrastructureError, match=r"setting up uid map: Permission denied.*install bubblewrap"
    ):
        BubblewrapBackend()
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([]))
    with pytest.raises(InfrastructureError, match="none found; install bubblewrap"):
        BubblewrapBackend()


def test_a_start_that_fails_says_what_the_program_said(backend):
    failing = BubblewrapBackend(Path(shutil.which("false") or "/bin/false"))
    try:
        with pytest.raises(InfrastructureError, match="gone"):
            asyncio.run(failing.start(SandboxLimits()))
    finally:
        failing.close()
    talking = BubblewrapBackend(Path(shutil.which("ls") or "/bin/ls"))
    try:
        with pytest.raises(InfrastructureError, match="unrecognized option"):
            asyncio.run(talking.start(SandboxLimits()))
    finally:
        talking.close()


def test_backends_are_chosen_by_name(backend):
    chosen = select_backend("auto")
    chosen.close()
    assert chosen.name == "bubblewrap"
    with pytest.raises(RequestError, match="--sandbox none: unknown; one of auto, bubblewrap"):
        select_backend("none")


def test_there_is_no_silent_step_down_to_less_isolation(monkeypatch):
    monkeypatch.setattr(bubblewrap, "candidates", lambda: iter([]))
    for name in ("auto", "bubblewrap"):
        with pytest.raises(InfrastructureError, match="no sandbox works here"):
            select_backend(name)


def test_the_doctor_tries_everything_and_names_a_remedy_for_what_fails():
    found = {probe.name: probe for probe in probes()}
    assert list(found) == ["bubblewrap", "guest", "seccomp", "cgroups", "docker"]
    assert all(probe.works or probe.remedy for probe in found.values())


def test_cgroups_of_dead_harnesses_are_swept_and_those_of_live_ones_are_not(tmp_path):
    live = cgroups._owner(1)
    for name in (f"{live}-0", "999999999-12345-0", "1-1-7", "unrelated"):
        (tmp_path / name).mkdir()
    cgroups.sweep(tmp_path)
    assert sorted(child.name for child in tmp_path.iterdir()) == sorted([f"{live}-0", "unrelated"])
