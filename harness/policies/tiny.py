"""The embedded policy's make-up: a small Qwen2 and a tokenizer that makes copying easy, as a Hugging Face folder.

Ordinary byte-pair encoding gives ``dragon`` different tokens after a space, after a quote and before a dot, so that copying a
word from an observation into a command means translating it. Here the content words are tokens of their own wherever they
stand, chat and protocol markers are single tokens, and everything else is byte-level BPE that may run across spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.policies.quiet import quiet_transformers

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
HEADERS = tuple(f"{START}{role}\n" for role in ("system", "user", "assistant"))


@dataclass(frozen=True, slots=True)
class TinyShape:
    """Size of the model. Heads are of 32: engines on CPUs refuse smaller ones. Every head has keys and values of its own: with
    shared ones, copying words is learnt much later."""

    hidden: int = 96
    layers: int = 4
    heads: int = 3
    feed_forward: int = 288
    context: int = 1024


def build_tokenizer(
    texts: Iterable[str], words: Sequence[str], markers: Sequence[str], vocabulary: int
) -> Any:
    """A ``PreTrainedTokenizerFast``. ``words`` and ``markers`` become single tokens; ``texts`` teach the BPE, which fills up to
    ``vocabulary`` tokens. Deterministic: order of ``texts`` and lists decides."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, START]
    fixed = [*HEADERS, END + "\n", *markers]
    lone = list(dict.fromkeys([*fixed, *words]))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max(vocabulary - len(lone), 256 + len(special)),
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=20,
        max_token_length=12,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_between(texts, lone), trainer)
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False, special=False) for text in lone if text != END + "\n"]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _between(texts: Iterable[str], lone: Sequence[str]) -> Iterable[str]:
    """What is left of the texts between the tokens that stand alone: that is all the BPE will ever see."""
    import re

    pattern = re.compile("|".join(re.escape(text) for text in sorted(lone, key=len, reverse=True)))
    for text in texts:
        yield from (piece for piece in pattern.split(text) if piece)


def build_model(vocabulary: int, shape: TinyShape, seed: int) -> Any:
    """A Qwen2 for causal language modelling with fresh weights, drawn from the seed; tied embeddings."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        rms_norm_eps=1e-6,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
        initializer_range=0.05,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write weights (fp16), configuration and tokenizer as a Hugging Face folder."""
    import torch

    quiet_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.float16).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
