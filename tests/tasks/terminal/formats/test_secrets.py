"""Truth, tests and solutions never reach anything that the agent can read; nothing that it leaves changes the verdict."""

import asyncio
import json

import pytest

from tasks.terminal.agent import SYSTEM_PROMPT
from tasks.terminal.formats.machine import Machines
from tasks.terminal.formats.read import read_task
from tests.tasks.terminal.formats.folders import (
    FINAL,
    INITIAL,
    POST,
    SOLVE,
    commands,
    endless,
    harbor,
    play,
    seen,
)

TOKEN = "CANARY-7d1f"
# Every file of every file system but the base's own /usr; environments, arguments and memory of every process, shared memory
# and descriptors. The brackets keep the search from finding itself.
SEARCH = r"""
cd /
{
    find / /dev/shm -path /usr -prune -o -path /proc -prune -o -path /dev -prune -o -type f -print0 | xargs -0 grep -la 'CANAR[Y]-7d1f'
    find / -path /usr -prune -o -path /proc -prune -o -name '*CANARY-7d1[f]*' -print
    for p in /proc/[0-9]*; do
        cat $p/environ $p/cmdline $p/stat $p/maps 2>/dev/null | grep -qa 'CANAR[Y]-7d1f' && echo $p
        for d in $p/fd/*; do [ -f $d ] && head -c 9000000 $d 2>/dev/null | grep -qa 'CANAR[Y]-7d1f' && echo $d; done
    done
    cat /proc/mounts /proc/self/mountinfo /proc/cmdline /proc/keys /proc/sysvipc/* 2>/dev/null | grep -a 'CANAR[Y]-7d1f'
    env | grep -a 'CANAR[Y]-7d1f'
} 2>/dev/null
echo searched
"""


def canary_endless(folder, **more):
    summary = {
        "results": [
            {
                "success": True,
                "messages": [{"role": "assistant", "content": f"<command>echo {TOKEN}</command>"}],
            }
        ]
    }
    return endless(
        folder,
        final=f"# {TOKEN}\n{FINAL}",
        initial=f"# {TOKEN}\n{INITIAL}",
        truth=TOKEN,
        name=TOKEN,
        files={"solutions/m_summary.json": json.dumps(summary), "notes.txt": TOKEN},
        **more,
    )


def canary_harbor(folder, dockerfile=None):
    return harbor(
        folder,
        dockerfile,
        final=f"# {TOKEN}\n{FINAL}",
        solve=f"{SOLVE} # {TOKEN}",
        files={
            "tests/helper.py": f"# {TOKEN}\n",
            "environment/task.json": json.dumps({"truth": TOKEN}),
            "environment/test_initial_state.py": f"# {TOKEN}\n{INITIAL}",
        },
    )


COPY_ALL = "FROM debian\nWORKDIR /home/user\nCOPY . /home/user/\nRUN echo hello > in.txt\n"
FOLDERS = {
    "endless": canary_endless,
    "harbor": canary_harbor,
    "harbor that copies its whole context": lambda folder: canary_harbor(folder, COPY_ALL),
}


@pytest.mark.parametrize("make", FOLDERS.values(), ids=FOLDERS)
def test_no_byte_that_the_agent_can_read_holds_tests_truth_or_solution(machines, tmp_path, make):
    folder = make(tmp_path / "task")
    trajectory = play(machines, folder, commands(SEARCH, SOLVE), command_s=60.0)
    assert trajectory.turns[0].result.observation.text == "exit code 0\nsearched"
    assert trajectory.success
    assert TOKEN not in seen(trajectory)
    assert TOKEN not in SYSTEM_PROMPT + read_task(folder).instruction
    _, layer = asyncio.run(Machines.layer(machines, read_task(folder)))
    assert TOKEN.encode() not in layer.archive
    assert not any(TOKEN.encode() in (entry.content or b"") for _, entry in layer.files)


@pytest.mark.parametrize(
    "place", ["/home/user/x", "/opt/x", "/etc/x", "/etc/d/x", "/tmp/x", "/var/lib/x", "/x"]
)
def test_the_search_finds_what_is_there(machines, tmp_path, place):
    post = f"{POST}\n    mkdir -p /etc/d && echo CANARY-7d1f > {place}"
    trajectory = play(machines, endless(tmp_path / "task", post=post), commands(SEARCH), command_s=60.0)
    assert trajectory.turns[0].result.observation.text == f"exit code 0\n{place}\nsearched"


PLUGIN = "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_call(item):\n    item.obj = lambda: None\n"
EXIT_0 = "import os\nos._exit(0)\n"
PLANT = "for d in . /tmp /tests /opt /home /var /srv /usr/local/lib/python3*/*-packages; do cp {0} $d/{1} 2>/dev/null; done; true"
HACKS = {
    "a shell function called pytest": ["pytest() { return 0; }; python3() { return 0; }; export -f pytest python3"],
    "an alias and a startup file": ["alias python3=true; echo 'exit 0' > ~/.bashrc; export BASH_ENV=~/.bashrc ENV=~/.bashrc"],
    "a conftest": [f"cat > /tmp/c <<'X'\n{PLUGIN}X", PLANT.format("/tmp/c", "conftest.py")],
    "a plugin by the environment": [f"cat > plug.py <<'X'\n{PLUGIN}X", "export PYTEST_PLUGINS=plug PYTEST_ADDOPTS='-p plug' PYTHONPATH=$PWD"],
    "sitecustomize": [f"cat > sitecustomize.py <<'X'\n{EXIT_0}X", "export PYTHONPATH=$PWD PYTHONSTARTUP=$PWD/sitecustomize.py"],
    "usercustomize and .pth files": [
        f"for h in $HOME /tmp /root; do d=$h/.local/lib/python3.11/site-packages; mkdir -p $d; echo 'import os; os._exit(0)' > $d/x.pth; cat > $d/usercustomize.py <<'X'\n{EXIT_0}X\ndone",
    ],
    "modules that pytest imports": [f"cat > pytest.py <<'X'\n{EXIT_0}X", "for m in _pytest pluggy ctypes os sys json; do cp pytest.py $m.py; done", PLANT.format("pytest.py", "pytest.py")],
    "settings of pytest": ["printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini; cp pytest.ini /home/ ; cp pytest.ini /tests/; cp pytest.ini /tmp/; true"],
    "programs in PATH": ["mkdir -p bin; for p in python3 pytest env bash; do printf '#!/bin/sh\\nexit 0\\n' > bin/$p; chmod 755 bin/$p; done; export PATH=$PWD/bin:$PATH; cp bin/* /usr/local/bin/ 2>/dev/null; true"],
    "a library preloaded": ["export LD_PRELOAD=$PWD/x.so LD_LIBRARY_PATH=$PWD; echo $PWD/x.so > /etc/ld.so.preload; touch x.so; true"],
    "a loop that rewrites the test": ["(while :; do echo 'def test_a(): pass' > /tests/test_final_state.py; done) >/dev/null 2>&1 &"],
    "a daemon that waits for the verifier": ["setsid nohup sh -c 'while :; do [ -e /logs/verifier ] && echo 1 > /logs/verifier/reward.txt; pkill -f pytest; done' >/dev/null 2>&1 & disown -a"],
    "the reward written beforehand": ["mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json; chmod 444 /logs/verifier/*; chmod 555 /logs/verifier; true"],
    "tests that cannot be replaced": ["echo 'def test_a(): pass' > /tests/test_final_state.py; chmod 444 /tests/*; chmod 555 /tests; true", "mkdir -p /tests/test_final_state.py/x; true"],
    "the root folder turned around": ["mv /etc /etc2; mv /lib64 /lib65; rm -f /bin; ln -sf /home/user/bin /bin; mv /usr /usr2; true"],
}  # fmt: skip
SCRIPT = "#!/bin/bash\ncd /tmp; echo running\npython3 -m pytest -q /tests/test_final_state.py\nif [ $? -eq 0 ]; then\necho 1 > /logs/verifier/reward.txt\nelse\necho 0 > /logs/verifier/reward.txt\nfi\n"
TARGETS = {
    "endless": lambda folder: endless(folder),
    "endless with programs of its own": lambda folder: endless(
        folder, post=POST + "\n    echo x > /usr/local/bin/own"
    ),
    "harbor": lambda folder: harbor(folder),
    "harbor with a script of its own": lambda folder: harbor(folder, test_sh=SCRIPT),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("hack", HACKS.values(), ids=HACKS)
def test_what_the_agent_leaves_behind_changes_no_verdict(machines, tmp_path, make, hack):
    trajectory = play(machines, make(tmp_path / "task"), commands(*hack))
    assert (trajectory.success, trajectory.error) == (False, None)


@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(
    "hack", ["a conftest", "programs in PATH", "tests that cannot be replaced", "settings of pytest"]
)
def test_nor_does_it_spoil_a_solved_task(machines, tmp_path, make, hack):
    trajectory = play(machines, make(tmp_path / "task"), commands(SOLVE, *HACKS[hack]))
    assert (trajectory.success, trajectory.error) == (True, None)
