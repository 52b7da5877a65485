"""One forward pass over a :class:`~harness.policies.kv_cache.KVCache`: hand-written for Qwen2, Hugging Face's for the rest.

Both take ``ids`` and ``positions`` (active rows, new tokens) and ``last`` (active rows: index of each row's last real token)
and return logits (active rows, vocabulary) after that token. Rows with fewer new tokens are padded on the right; what the
padding writes lies beyond the row's end and is overwritten before anything attends to it.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from harness.policies.kv_cache import KVCache


class Forward(Protocol):
    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor, length: int, cache: KVCache
    ) -> torch.Tensor: ...

    def weights_changed(self) -> None: ...


def visible(positions: torch.Tensor, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Additive mask (rows, 1, new tokens, length): 0 where a token may look, -inf beyond its own position."""
    columns = torch.arange(length, device=positions.device)
    mask = torch.zeros(
        (positions.shape[0], 1, positions.shape[1], length), dtype=dtype, device=positions.device
    )
    return mask.masked_fill_(columns > positions[:, None, :, None], float("-inf"))


class Qwen2Forward:
    """The Qwen2 decoder on live weights. Per pass it saves most of what a small model spends in Python; q, k, v and gate, up
    are one product each, from copies that are renewed when the weights change."""

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps = config.rms_norm_eps
        self._hidden = config.hidden_size
        self._rotary: tuple[torch.Tensor, torch.Tensor] | None = None
        self._fused: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    @staticmethod
    def suits(model: Any) -> bool:
        config = model.config
        layers = getattr(config, "layer_types", None) or ["full_attention"]
        rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
        kind = rope.get("rope_type", "default") if isinstance(rope, dict) else "default"
        return (
            config.model_type == "qwen2"
            and all(layer == "full_attention" for layer in layers)
            and kind == "default"
            and config.hidden_act == "silu"
        )

    def weights_changed(self) -> None:
        self._fused = []

    def _fuse(self) -> None:
        for layer in self._model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            parts = (attention.q_proj, attention.k_proj, attention.v_proj)
            self._fused.append(
                (
                    torch.cat([part.weight for part in parts]),
                    torch.cat([part.bias for part in parts]),
                    torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
                )
            )

    def _tables(self, count: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self._rotary is None or self._rotary[0].shape[0] < count:
            rows = max(256, 2 * count)
            positions = torch.arange(rows, device=like.device)[None]
            cos, sin = self._model.model.rotary_emb(like, positions)
            # rotate_half(x) * sin == roll(x, half) * signed sin
            half = self._size // 2
            signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
            self._rotary = (cos[0].clone(), signed.clone())
        return self._rotary

    def _attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Attention of (rows, new, heads, size) over (rows, length, kv heads, size): (rows, new, heads * size)."""
        rows, new = queries.shape[:2]
        attended = F.scaled_dot_product_attention(
            queries.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=mask,
            enable_gqa=self._heads != self._kv_heads,
        )
        return attended.transpose(1, 2).reshape(rows, new, -1)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor, length: int, cache: KVCache
    ) -> torch.Tensor:
        if not self._fused:
            self._fuse()
        model = self._model.model
        rows, new = ids.shape
        hidden = F.embedding(ids, model.embed_tokens.weight)
        cos, sin = self._tables(cache.capacity, hidden)  # padding may stand past `length`
        cos, sin = cos[positions].unsqueeze(2), sin[positions].unsqueeze(2)
        mask = visible(positions, length, hidden.dtype)
        half = self._size // 2
        q_size, kv_size = self._heads * self._size, self._kv_heads * self._size
        for index, layer in enumerate(model.layers):
            qkv_weight, qkv_bias, gate_up = self._fused[index]
            normed = F.rms_norm(hidden, (self._hidden,), layer.input_layernorm.weight, self._eps)
            qkv = F.linear(normed, qkv_weight, qkv_bias)
            qk = qkv[..., : q_size + kv_size].view(rows, new, self._heads + self._kv_heads, self._size)
            qk = qk * cos + qk.roll(half, -1) * sin
            keys, values = cache.extend(
                index,
                qk[:, :, self._heads :],
                qkv[..., q_size + kv_size :].view(rows, new, self._kv_heads, self._size),
            )
            joined = self._attend(qk[:, :, : self._heads], keys, values, mask)
            hidden = hidden + F.linear(joined, layer.self_attn.o_proj.weight)
            normed = F.rms_norm(hidden, (self._hidden,), layer.post_attention_layernorm.weight, self._eps)
            gate, up = F.linear(normed, gate_up).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.mlp.down_proj.weight)
        final = hidden[torch.arange(rows, device=ids.device), last]
        final = F.rms_norm(final, (self._hidden,), model.norm.weight, self._eps)
        return F.linear(final, self._model.lm_head.weight)


class HuggingFaceForward:
    """Any causal language model, through its own forward with a cache object that stores into our rows."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._rows = _row_cache()
        # transformers 5.40 renames the argument.
        names = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in names else "past_key_values"

    def weights_changed(self) -> None:
        return None

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor, length: int, cache: KVCache
    ) -> torch.Tensor:
        self._rows.rows, self._rows.seen = cache, length - ids.shape[1]
        output = self._model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=visible(positions, length, self._model.dtype),
            use_cache=True,
            **{self._cache_argument: self._rows},
        )
        logits: torch.Tensor = output.logits[torch.arange(ids.shape[0], device=ids.device), last]
        return logits


def _row_cache() -> Any:
    from transformers.cache_utils import Cache

    class RowCache(Cache):
        """Hugging Face's cache protocol over :class:`KVCache`; keys come as (rows, heads, new tokens, head size)."""

        rows: KVCache
        seen = 0

        def __init__(self) -> None:
            self.layers: list[Any] = []

        def update(
            self,
            key_states: torch.Tensor,
            value_states: torch.Tensor,
            layer_idx: int,
            *args: Any,
            **kwargs: Any,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            keys, values = self.rows.extend(
                layer_idx, key_states.transpose(1, 2), value_states.transpose(1, 2)
            )
            return keys.transpose(1, 2), values.transpose(1, 2)

        def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
            return self.seen

        def get_mask_sizes(self, query_length: Any, layer_idx: int = 0) -> tuple[int, int]:
            return self.seen + (query_length if isinstance(query_length, int) else len(query_length)), 0

    return RowCache()
