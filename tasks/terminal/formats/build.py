"""Carries out a plan in a sandbox without network, and takes what it changed as a layer.

A build is one user in one user namespace: it cannot change owners, nor write below ``/usr`` but in ``/usr/local``. What
programs such as apt, useradd or chown would do is answered by ``shim.py``. Whatever fails makes the task unusable and says
at which line; a layer is made only of a build of which every step succeeded.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import Entry, folder, link, text_file
from tasks.terminal.formats import shim
from tasks.terminal.formats.plan import BuildFileError, Plan, Step
from tasks.terminal.sandbox.interface import CommandResult, Root, Sandbox, SandboxBackend, SandboxLimits

LIMITS = SandboxLimits(memory_mb=1024, pids=512, file_size_mb=256, disk_mb=256)
LAYER_LIMIT = 64 << 20
"""Bytes of a layer's archive at most."""

_HERE = "/run/build"
_STAND_INS = """python3-pip python3-venv python3-pytest python3-setuptools python3-wheel apt-utils apt-transport-https
    ca-certificates software-properties-common tzdata locales sudo dialog"""
STAND_INS = tuple(_STAND_INS.split())
"""Packages that are taken for present: a build, or a test, does without them here."""

# Services that the build started end first: kill leaves out the shell that calls it, and the guest.
_COLLECT = r"""
kill -KILL -1 2>/dev/null
cd / && PATH=/usr/bin:/bin
kept() { find "$@" -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./usr -o -path ./tests -o -path ./run/build \
    -o -path ./run/shell -o -path ./run/verifier \) -prune -o "${what[@]}"; }
roots=(. ./home/user ./tmp ./usr/local)
: > run/build/modes
for root in "${roots[@]}"; do
    what=(-type d ! \( -readable -executable \) -printf '%m %p\0' -exec chmod u+rx {} \;)
    kept "$root" >> run/build/modes
    what=(-type f ! -readable -printf '%m %p\0' -exec chmod u+r {} \;)
    kept "$root" >> run/build/modes
done
what=(-cnewer run/build/stamp ! -path . ! -type s -print0)
for root in "${roots[@]}"; do kept "$root"; done > run/build/changed
tar --no-recursion --numeric-owner --format=pax -cf run/build/layer.tar --null --files-from run/build/changed
"""


@dataclass(frozen=True, slots=True)
class Built:
    """``archive``: a tar of everything that changed, by paths such as ``./home/user/a``. ``modes``: permission bits that differ
    from the archive's."""

    archive: bytes
    modes: Mapping[str, int]


async def build(
    backend: SandboxBackend, plan: Plan, packages: frozenset[str], timeout_s: float, python: str
) -> Built:
    """Raises BuildFileError for the step that failed, InfrastructureError for a sandbox that did."""
    sandbox = await backend.start(LIMITS, Root(open=True))
    try:
        await sandbox.write(_tools(packages, python))
        await _must(sandbox, f"touch {_HERE}/stamp && sleep 0.05")
        deadline = time.monotonic() + timeout_s
        for number, step in enumerate(plan.steps):
            await _carry_out(sandbox, step, number, deadline, timeout_s)
        return await _collect(sandbox)
    finally:
        await sandbox.close()


@cache
def tools_sha256() -> str:
    """Of what stands in for programs: a layer is a function of it too."""
    source = files("tasks.terminal.formats").joinpath("shim.py").read_bytes()
    return hashlib.sha256(source + _STAND_INS.encode() + _COLLECT.encode()).hexdigest()


def _tools(packages: frozenset[str], python: str) -> dict[str, Entry]:
    source = files("tasks.terminal.formats").joinpath("shim.py").read_text(encoding="utf-8")
    names = " ".join(shim.ACTIONS.values()).split()
    module = 'import os, sys\nos.execv("/run/build/bin/pip", ["/run/build/bin/pip", *sys.argv[1:]])\n'
    return {
        f"{_HERE}/bin": folder(),
        f"{_HERE}/shim": text_file(f"#!{python} -I\n{source}", 0o755),
        f"{_HERE}/packages": text_file("\n".join(sorted(packages | set(STAND_INS))) + "\n"),
        f"{_HERE}/python/pip/__init__.py": text_file(""),
        f"{_HERE}/python/pip/__main__.py": text_file(module),
        **{f"{_HERE}/bin/{name}": link(f"{_HERE}/shim") for name in names},
    }


async def _carry_out(sandbox: Sandbox, step: Step, number: int, deadline: float, timeout_s: float) -> None:
    try:
        await sandbox.write(step.files)
    except EnvironmentFault as fault:
        raise BuildFileError(step.line, str(fault)) from None
    commands = [
        f"mkdir -p {shlex.quote(into)} && tar -C {shlex.quote(into)} -xf {path}"
        for path, into in step.archives
    ]
    if step.argv:
        commands.append(await _prepared(sandbox, step, number))
    for command in commands:
        left = deadline - time.monotonic()
        result = await sandbox.run(command, max(left, 0.1))
        refused = await sandbox.run(f"cat {_HERE}/refused 2>/dev/null", 10)
        refusals = [text for text in refused.output.split("\n") if text.startswith("refused: ")]
        if refusals:
            reason = refusals[0].removeprefix("refused: ")
        elif result.timed_out:
            reason = f"no end within {timeout_s:g} s"
        elif result.exit_code != 0:
            reason = f"exit code {result.exit_code}" + (f" ({result.limit})" if result.limit else "")
        else:
            continue
        line, said = await _autopsy(sandbox, result, step, number)
        raise BuildFileError(line, reason if refusals or not said else f"{reason}: {said}")


async def _prepared(sandbox: Sandbox, step: Step, number: int) -> str:
    """The shell line that runs the step's script, or its command."""
    path = f"{_HERE}/script-{number}"
    words = list(step.argv)
    if step.script is not None:
        await sandbox.write({path: text_file(step.script, 0o755)})
        words.append(path)
    environment = dict(step.environment)
    environment["PATH"] = f"{_HERE}/bin:{environment.get('PATH', '/usr/bin:/bin')}"
    environment["PYTHONPATH"] = ":".join(filter(None, (f"{_HERE}/python", environment.get("PYTHONPATH"))))
    environment |= {"DEBIAN_FRONTEND": "noninteractive", "TAR_OPTIONS": "--no-same-owner"}
    assignments = [f"{name}={value}" for name, value in environment.items()]
    redirect = f" 2>{path}.errors" if step.script_line is not None else ""
    return (
        f"\\builtin cd {shlex.quote(step.workdir)} && command env -i "
        f"{shlex.join([*assignments, *words])}{redirect}"
    )


async def _autopsy(sandbox: Sandbox, result: CommandResult, step: Step, number: int) -> tuple[int, str]:
    """The line of the build file that failed, and the end of what was said. Where the shell echoes each line as it reads it
    (``-v``), the line is the last that was read, otherwise the step's own. The sandbox is of no use afterwards."""
    if step.script_line is None or step.script is None:
        return step.line, " ".join(result.output.split())[-300:]
    name = f"{_HERE}/script-{number}.errors"
    await sandbox.freeze()
    entry = (await sandbox.snapshot([name])).get(name)
    errors = (entry.content or b"").decode(errors="replace") if entry else ""
    lines = step.script.split("\n")
    read, said = 0, [result.output]
    for line in errors.split("\n"):
        if read < len(lines) and line == lines[read]:
            read += 1
        else:
            said.append(line)
    while read > 1 and not lines[read - 1].strip():
        read -= 1
    return step.script_line + max(read - 1, 0), " ".join(" ".join(said).split())[-300:]


async def _collect(sandbox: Sandbox) -> Built:
    left = await sandbox.run("ls -A /tests", 10)
    if left.output.strip():
        name = left.output.split("\n")[0]
        raise BuildFileError(
            1, f"the build makes /tests/{name}; accepted: nothing below /tests, the verifier's"
        )
    await _must(sandbox, _COLLECT)
    await sandbox.freeze()
    names = (f"{_HERE}/layer.tar", f"{_HERE}/modes")
    tree = await sandbox.snapshot(names, max_bytes_per_file=LAYER_LIMIT, max_total_bytes=2 * LAYER_LIMIT)
    archive, modes = (tree[name].content if name in tree else None for name in names)
    if archive is None or modes is None:
        raise BuildFileError(1, f"the build leaves more than {LAYER_LIMIT} bytes; accepted: less")
    pairs = [item.split(b" ", 1) for item in modes.split(b"\0") if item]
    return Built(archive, {path.decode(errors="surrogateescape"): int(mode, 8) for mode, path in pairs})


async def _must(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.run(command, 60)
    if result.exit_code != 0:
        raise InfrastructureError(f"a build's sandbox fails: {result.output.strip()[-300:]}")
