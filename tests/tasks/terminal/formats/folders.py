"""Writes task folders in both layouts, and plays episodes of them with scripted replies."""

import asyncio
import json
import textwrap
from pathlib import Path

from harness.policies.scripted import ScriptedPolicy
from harness.rollout import Decoding, run_episodes
from tasks.terminal.agent import terminal_agent
from tasks.terminal.formats.episode import FolderEnvironment
from tasks.terminal.formats.read import read_task

INITIAL = """
import os
def test_the_input_is_there():
    assert os.path.isfile("/home/user/in.txt")
"""
FINAL = """
def test_the_output_is_the_input_in_capitals():
    assert open("/home/user/out.txt").read() == "HELLO\\n"
"""
POST = """
    mkdir -p /home/user
    echo hello > /home/user/in.txt
"""
SOLVE = "tr a-z A-Z < /home/user/in.txt > /home/user/out.txt"
STOCK_TEST_SH = """#!/bin/bash

apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
uvx \\
  --python 3.12 \\
  --with pytest==8.4.1 \\
  pytest /tests/test_final_state.py -v
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
TOML = """
version = "0.1"
[metadata]
difficulty = "medium"
category = "text"
[verifier]
timeout_sec = 300
[agent]
timeout_sec = 300
[environment]
build_timeout_sec = 600
cpus = 1
memory_mb = 512
storage_mb = 1024
"""


def _write(folder: Path, files: dict) -> Path:
    for name, content in files.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def endless(
    folder: Path, post=POST, final=FINAL, initial=INITIAL, environment="", files=None, **described
) -> Path:
    """A native folder; ``files`` adds or replaces files (None leaves one out)."""
    definition = f"Bootstrap: localimage\nFrom: ./ubuntu_22.04.sif\n\n%post\n{post}\n"
    if environment:
        definition += f"\n%environment\n{environment}\n"
    described = {
        "description": "Write in.txt in capitals to out.txt.",
        "truth": "out.txt is HELLO",
        "name": "t",
        **described,
    }
    return _write(
        folder,
        {
            "task.json": json.dumps(described),
            "container.def": definition + "\n%runscript\n    exec /bin/bash\n",
            "test_initial_state.py": initial,
            "test_final_state.py": final,
            **(files or {}),
        },
    )  # fmt: skip


def harbor(
    folder: Path, dockerfile=None, final=FINAL, test_sh=STOCK_TEST_SH, toml=TOML, solve=SOLVE, files=None
) -> Path:
    if dockerfile is None:
        dockerfile = "FROM ubuntu:22.04\nRUN mkdir -p /home/user && echo hello > /home/user/in.txt\nWORKDIR /home/user\n"
    return _write(
        folder,
        {
            "task.toml": toml,
            "instruction.md": "Write in.txt in capitals to out.txt.\n",
            "environment/Dockerfile": textwrap.dedent(dockerfile),
            "tests/test.sh": test_sh,
            "tests/test_final_state.py": final,
            "solution/solve.sh": None if solve is None else f"#!/bin/bash\n{solve}\n",
            **(files or {}),
        },
    )  # fmt: skip


def play(
    machines, folder, replies, parser="strict", max_turns=16, command_s=10.0, episode_s=600.0, verifier_s=60.0
):
    """One episode through the rollout path that training uses: its trajectory."""

    class Suite:
        def environment(self):
            return FolderEnvironment(machines, command_s, episode_s, verifier_s)

    agent = terminal_agent(parser, "full", max_turns, 2048)
    policy = ScriptedPolicy([replies])
    task = read_task(folder)
    (trajectory,) = asyncio.run(
        run_episodes(policy, agent, Suite(), [task], Decoding(0.0, 1), concurrency=1, attempts=2)
    )
    return trajectory


def commands(*texts):
    """Replies that run these commands, then say done."""
    return [*(f"<command>{text}</command>" for text in texts), "<action>done</action>"]


def seen(trajectory):
    """Everything that the agent read."""
    return "\n".join(
        [turn.observation.text for turn in trajectory.turns]
        + [turn.result.observation.text for turn in trajectory.turns]
    )
