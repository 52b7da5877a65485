"""Chat text to token ids and back, for any Hugging Face tokenizer with a chat template.

A conversation grows by tokens, never by text: what the policy sampled stays as sampled, and only what the template puts
between one reply and the next is encoded. That needs a template whose rendering of a longer conversation begins with the
rendering of a shorter one; the constructor checks it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.interfaces import Message

_REPLY = "REPLY"
_NEXT = "NEXT"


def _declared_class(folder: Path) -> str | None:
    """What ``tokenizer_config.json`` names, where there is one."""
    file = folder / "tokenizer_config.json"
    return json.loads(file.read_text(encoding="utf-8")).get("tokenizer_class") if file.is_file() else None


class ChatTokenizer:
    """Implements ``harness.interfaces.Tokenizer``. ``end_ids``: the tokens that end a reply."""

    def __init__(self, tokenizer: Any, name: str, end_ids: Sequence[int] = ()) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise RequestError(
                f"{name}: the tokenizer has no chat template; accepted: a chat (instruct) model"
            )
        self.hf = tokenizer
        self.name = name
        ends = {*end_ids, *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else [])}
        if not ends:
            raise RequestError(f"{name}: no token ends a reply; accepted: a model with an eos token")
        self.end_ids = frozenset(int(i) for i in ends)
        self._end, self._before_user, self._after_user = self._probe()
        self._end_ids = self._encode(self._end)

    @classmethod
    def load(cls, source: str | Path) -> ChatTokenizer:
        """From a folder or hub name. Raises RequestError where there is no usable tokenizer.

        A folder whose ``tokenizer_config.json`` asks for the plain class gets it: for some model types (Qwen2) ``AutoTokenizer``
        would put the family's own class in its place, which splits text by rules that ``tokenizer.json`` does not have."""
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        try:
            plain = _declared_class(Path(source)) in ("PreTrainedTokenizerFast", "TokenizersBackend")
            tokenizer = (PreTrainedTokenizerFast if plain else AutoTokenizer).from_pretrained(str(source))
        except (OSError, ValueError) as error:
            raise RequestError(f"{source}: no tokenizer can be loaded: {error}") from error
        return cls(tokenizer, str(source))

    def _render(self, messages: Sequence[Message], reply_wanted: bool) -> str:
        plain = [{"role": m.role, "content": m.content} for m in messages]
        return str(self.hf.apply_chat_template(plain, tokenize=False, add_generation_prompt=reply_wanted))

    def _encode(self, text: str) -> tuple[int, ...]:
        backend = getattr(self.hf, "backend_tokenizer", None)
        if backend is not None:
            return tuple(backend.encode(text, add_special_tokens=False).ids)
        return tuple(self.hf.encode(text, add_special_tokens=False))

    def _probe(self) -> tuple[str, str, str]:
        """The texts that end a reply, and that stand before and after the next user message."""
        start = [Message("user", "FIRST")]
        reply = [*start, Message("assistant", _REPLY)]
        prompt, ended = self._render(start, True), self._render(reply, False)
        grown = self._render([*reply, Message("user", _NEXT)], True)
        if not ended.startswith(prompt + _REPLY) or not grown.startswith(ended) or grown.count(_NEXT) != 1:
            raise RequestError(
                f"{self.name}: the chat template rewrites earlier turns, so sampled tokens could not be kept; accepted: a "
                "template that only appends"
            )
        ending = ended[len(prompt) + len(_REPLY) :]
        before, after = grown[len(ended) :].split(_NEXT)
        # The end-of-turn token itself belongs to the reply; what the template puts after it, to the next prompt.
        token = self.hf.decode([next(iter(self._encode(ending)))]) if ending else ""
        if ending and token and ending.startswith(token) and self._encode(token)[0] in self.end_ids:
            return token, ending[len(token) :] + before, after
        return ending, before, after

    def first_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return self._encode(self._render(messages, True))

    def encode(self, text: str) -> tuple[int, ...]:
        """A reply's text, without the token that ends it."""
        return self._encode(text)

    def next_prompt(
        self, prompt_ids: tuple[int, ...], token_ids: tuple[int, ...], new_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        last = token_ids[-1:] or prompt_ids[-1:]
        end = () if last and last[0] in self.end_ids else self._end_ids
        if len(new_messages) == 1 and new_messages[0].role == "user":
            text = self._before_user + new_messages[0].content + self._after_user
        else:
            base = [Message("user", "FIRST"), Message("assistant", _REPLY)]
            rendered = self._render([*base, *new_messages], True)
            ended_text = self._render(base, False)
            text = rendered[len(ended_text) :]
        return (*prompt_ids, *token_ids, *end, *self._encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        kept = token_ids[:-1] if token_ids and token_ids[-1] in self.end_ids else token_ids
        return str(self.hf.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))
