"""The WebShop agent's prompts and its reading of replies.

``brief`` is a plain conversation without a system message, for the embedded policy, which has learnt the protocol. ``action``
and ``think`` write one message per turn with the task, the last few steps, the page and the admissible actions; ``action``
wants the action alone, ``think`` wants reasoning in ``<think>`` and the action in ``<action>``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.agent import ChatAgent
from harness.interfaces import Action, Agent, Message, Observation, Turn
from tasks.webshop.session import parse_action

Prompt = Literal["brief", "action", "think"]

_TASK = """You are shopping in a web shop. You are given a task and a page; buy the product that fits the task best, with the options it asks for, within its price.

Each reply is one action:
search[words] searches the shop, from the search page.
click[text] clicks a button, a product or an option of the page.
The purchase ends the task: click[buy now] only when the right options are chosen."""

_REPLY_ACTION = "Reply with the action alone, such as search[blue cotton shirt] or click[buy now]."
_REPLY_THINK = (
    "First reason about the page between <think> and </think>. Then give exactly one action between <action> and </action>, "
    "such as <action>search[blue cotton shirt]</action>."
)

_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)


def _action_of(text: str, reply: str) -> Action:
    name, argument = parse_action(text.strip())
    if argument is None or name not in ("search", "click"):
        return Action("invalid", reply)
    return Action(name, argument)


def parse_plain(reply: str) -> Action:
    """The reply is ``search[...]`` or ``click[...]``; anything else is ``invalid``."""
    return _action_of(reply, reply)


def parse_tagged(reply: str) -> Action:
    """Exactly one ``<action>`` after the thinking holds the action; anything else is ``invalid``."""
    found = _TAGGED.findall(_THINK.sub("", reply))
    return _action_of(found[0], reply) if len(found) == 1 else Action("invalid", reply)


@dataclass(frozen=True)
class WebShopAgent:
    """Writes the whole prompt anew each turn. ``history``: how many earlier steps it shows."""

    prompt: Literal["action", "think"]
    history: int
    max_turns: int
    max_new_tokens: int

    def messages(self, turns: Sequence[Turn], observation: Observation) -> list[Message]:
        """One user message."""
        parts = [_TASK]
        first = max(0, len(turns) - self.history)
        if first < len(turns):
            parts.append(f"So far you took {len(turns)} of {self.max_turns} steps. The latest:")
            parts += [_step(number + 1, turns[number]) for number in range(first, len(turns))]
        parts.append(f"The page now (step {len(turns) + 1}):\n{observation.text}")
        if observation.admissible:
            parts.append("What you can do here:\n" + "\n".join(observation.admissible))
        parts.append(_REPLY_THINK if self.prompt == "think" else _REPLY_ACTION)
        return [Message("user", "\n\n".join(parts))]

    def parse(self, reply: str) -> Action:
        return parse_tagged(reply) if self.prompt == "think" else parse_plain(reply)


def _step(number: int, turn: Turn) -> str:
    known = turn.action.kind in ("search", "click")
    did = f"{turn.action.kind}[{turn.action.argument}]" if known else "a reply that is no action"
    note = (
        f" (it did nothing: {turn.result.info.get('reason', 'not understood')})"
        if turn.result.invalid
        else ""
    )
    return f"Step {number}, page:\n{turn.observation.text}\nStep {number}, action: {did}{note}"


def webshop_agent(prompt: Prompt, history: int, max_turns: int, max_new_tokens: int) -> Agent:
    """The agent of the suite."""
    if prompt == "brief":
        return ChatAgent(parser=parse_plain, max_turns=max_turns, max_new_tokens=max_new_tokens)
    return WebShopAgent(prompt, history, max_turns, max_new_tokens)
