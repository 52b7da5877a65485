"""A policy that says what a script tells it: demonstrations are played through the same rollout path as everything else."""

from __future__ import annotations

from collections.abc import Sequence

from harness.interfaces import Generation, GenerationRequest, Message


class PlainText:
    """A tokenizer without a vocabulary: one token per character, no chat markers. For scripts, which only need the text."""

    def first_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return ()

    def next_prompt(
        self, prompt_ids: tuple[int, ...], token_ids: tuple[int, ...], new_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        return ()

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


class ScriptedPolicy:
    """Conversation ``i`` gives ``scripts[i]``, a reply per turn; after its end, empty replies."""

    lockstep = False

    def __init__(self, scripts: Sequence[Sequence[str]]) -> None:
        self.tokenizer = PlainText()
        self._scripts = scripts
        self._turns = [0] * len(scripts)

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [self._next(request.conversation) for request in requests]

    def _next(self, conversation: int) -> Generation:
        turn = self._turns[conversation]
        self._turns[conversation] = turn + 1
        script = self._scripts[conversation]
        reply = script[turn] if turn < len(script) else ""
        return Generation(tuple(map(ord, reply)), (0.0,) * len(reply), "stop")

    def forget(self, conversations: Sequence[int]) -> None:
        for conversation in conversations:
            self._turns[conversation] = 0
