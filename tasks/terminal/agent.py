"""The terminal agent's protocol (Endless Terminals): one ``<command>`` or ``<action>done</action>`` per reply.

Observations carry the real exit code and the output; a reply that is neither costs a turn and gets a reminder.
"""

from __future__ import annotations

import re
from typing import Literal

from harness.agent import ChatAgent
from harness.interfaces import Action, Observation
from tasks.terminal.sandbox.interface import CommandResult

Parser = Literal["strict", "endless"]
Prompt = Literal["full", "brief"]

SYSTEM_PROMPT = """You work in a Linux terminal on one task. Each of your replies runs one shell command.

You may think first between <think> and </think>. Then answer with exactly one of
<command>ONE SHELL COMMAND</command>
<action>done</action>

After a command you are shown its exit code and its output. Programs that wait for input do not work here.
Answer <action>done</action> only after you have checked that the task is solved."""

REMINDER = "That reply could not be used. Answer with exactly one <command>...</command> or with <action>done</action>."

_COMMAND = re.compile(r"<command>(.*?)</command>", re.DOTALL)
_DONE = re.compile(r"<action>\s*done\s*</action>")
_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def parse_strict(reply: str) -> Action:
    """After the think block, exactly one command or one done; anything else is ``invalid``."""
    visible = _THINK.sub("", reply)
    commands = _COMMAND.findall(visible)
    done = _DONE.findall(visible)
    if len(commands) == 1 and not done and commands[0].strip():
        return Action("command", commands[0].strip())
    if done and not commands:
        return Action("done")
    return Action("invalid", visible)


def parse_endless(reply: str) -> Action:
    """As the original does: done anywhere wins, even inside a think block; otherwise the last command counts."""
    if _DONE.search(reply):
        return Action("done")
    commands = _COMMAND.findall(reply)
    if commands and commands[-1].strip():
        return Action("command", commands[-1].strip())
    return Action("invalid", reply)


def observe(result: CommandResult, timeout_s: float) -> Observation:
    """What the agent sees of a command: status line, then output."""
    if result.timed_out:
        status = f"timed out after {timeout_s:g} s"
    elif result.exit_code is None:
        status = "killed"
    else:
        status = f"exit code {result.exit_code}"
    if result.limit:
        status += f" ({result.limit})"
    return Observation(f"{status}\n{result.output}".rstrip("\n"))


def terminal_agent(parser: Parser, prompt: Prompt, max_turns: int, max_new_tokens: int) -> ChatAgent:
    """The agent of the suite. ``brief`` has no system message: the embedded policy has learnt the protocol."""
    return ChatAgent(
        parser=parse_strict if parser == "strict" else parse_endless,
        max_turns=max_turns,
        max_new_tokens=max_new_tokens,
        system=SYSTEM_PROMPT if prompt == "full" else "",
    )
