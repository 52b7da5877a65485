"""The chat agent: a system message, the history, a parser. One class serves every suite; a suite supplies the words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.interfaces import Action, Message, Observation, Turn


@dataclass(frozen=True)
class ChatAgent:
    """An agent whose prompt is ``system``, then each observation as a user message and each reply as an assistant's.

    parser: reply text -> Action (kind ``invalid`` when it means nothing; it costs a turn).
    system: empty for none.
    """

    parser: Callable[[str], Action]
    max_turns: int
    max_new_tokens: int
    system: str = ""

    def messages(self, turns: Sequence[Turn], observation: Observation) -> list[Message]:
        messages = [Message("system", self.system)] if self.system else []
        for turn in turns:
            messages.append(Message("user", turn.observation.text))
            messages.append(Message("assistant", turn.reply))
        messages.append(Message("user", observation.text))
        return messages

    def parse(self, reply: str) -> Action:
        return self.parser(reply)
