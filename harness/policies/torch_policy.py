"""The torch engine: drives any Hugging Face causal language model, in batches, over several turns.

A hand-written loop: each request carries its whole prompt, of which only what is not cached for its conversation is
computed; rows are ragged; a finished row leaves the batch at once. The random number of token i of a request is a pure
function of ``(request.seed, i)``, so what is sampled does not depend on the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from harness.errors import InfrastructureError, RequestError
from harness.interfaces import Generation, GenerationRequest
from harness.policies.chat_tokenizer import ChatTokenizer
from harness.policies.forward import Forward, HuggingFaceForward, Qwen2Forward
from harness.policies.kv_cache import KVCache
from harness.policies.quiet import quiet_transformers

_MASK = (1 << 64) - 1


def uniform(seed: int, index: int) -> float:
    """The uniform number in [0, 1) of token ``index``: SplitMix64's output function on ``seed + (index + 1) * gamma``."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


class TorchPolicy:
    """Implements ``harness.interfaces.Policy``. ``lockstep``: float sums depend on a batch's shape in their last bits, so
    reproducible results need reproducible batches."""

    lockstep = True

    def __init__(
        self, source: str | Path, dtype: str = "float32", device: str = "cpu", *, plain_forward: bool = False
    ) -> None:
        from transformers import AutoModelForCausalLM

        quiet_transformers()
        self.source = str(source)
        try:
            self.model: Any = AutoModelForCausalLM.from_pretrained(self.source, dtype=getattr(torch, dtype))
        except (OSError, ValueError) as error:
            raise RequestError(
                f"policy.model = {self.source!r}: no causal language model can be loaded from it: {error}"
            ) from error
        torch.nn.Module.to(self.model, torch.device(device))
        self.model.eval()
        self.model.requires_grad_(False)
        self.device = torch.device(device)
        configured = self.model.generation_config.eos_token_id
        ends = configured if isinstance(configured, list) else [configured] if configured is not None else []
        self.tokenizer = ChatTokenizer.load(source)
        self.tokenizer.end_ids = frozenset({*self.tokenizer.end_ids, *ends})
        self.context = int(getattr(self.model.config, "max_position_embeddings", 1 << 30))
        fast = Qwen2Forward.suits(self.model) and not plain_forward
        self._forward: Forward = Qwen2Forward(self.model) if fast else HuggingFaceForward(self.model)
        self._cache = KVCache(self.model.config.num_hidden_layers)

    # ------------------------------------------------------------------------------------------------ weights

    def named_parameters(self) -> dict[str, torch.Tensor]:
        """Live tensors under their Hugging Face names, sorted; tied weights once."""
        return {name: p.data for name, p in sorted(self.model.named_parameters(remove_duplicate=True))}

    @property
    def parameter_count(self) -> int:
        return sum(tensor.numel() for tensor in self.named_parameters().values())

    def weights_changed(self) -> None:
        """Tell the engine that its tensors were written: everything computed from them is void."""
        self._cache.clear()
        self._forward.weights_changed()

    def fingerprint(self) -> str:
        """SHA-256 over names and bytes of the weights."""
        digest = hashlib.sha256()
        for name, tensor in self.named_parameters().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write a Hugging Face model folder."""
        self.model.save_pretrained(str(folder))
        self.tokenizer.hf.save_pretrained(str(folder))

    # --------------------------------------------------------------------------------------------- generation

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return self.generate_now(requests)

    def forget(self, conversations: Sequence[int]) -> None:
        self._cache.forget(conversations)

    def generate_now(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """One generation per request, in their order. An empty one where the context has no room for a reply."""
        fitting = [r for r in requests if len(r.prompt_ids) < self.context and r.max_new_tokens > 0]
        done: dict[int, Generation] = {}
        if fitting:
            try:
                with torch.no_grad():
                    done = self._run(fitting)
            except torch.OutOfMemoryError as error:
                self._cache = KVCache(self._cache.layers)
                raise InfrastructureError(
                    f"the engine is out of memory at {len(fitting)} conversations: {error}"
                ) from error
        return [done.get(r.conversation, Generation((), (), "length")) for r in requests]

    def _run(self, requests: Sequence[GenerationRequest]) -> dict[int, Generation]:
        cache = self._cache
        limits = [min(r.max_new_tokens, self.context - len(r.prompt_ids)) for r in requests]
        cache.arrange(
            [r.conversation for r in requests],
            max(len(r.prompt_ids) + n for r, n in zip(requests, limits, strict=True)),
        )
        # State of each row, moved along when rows change places. The first `active` rows are still generating.
        order = list(range(len(requests)))
        emitted: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        feed: list[list[int]] = []
        for row, request in enumerate(requests):
            cached = cache.tokens[row]
            prompt = list(request.prompt_ids)
            common = 0
            # At least one token is always fed: its logits are needed.
            limit = min(len(cached), len(prompt) - 1)
            if cached[:limit] == prompt[:limit]:
                common = limit
            else:
                while cached[common] == prompt[common]:
                    common += 1
            cache.tokens[row] = prompt[:common]
            feed.append(prompt[common:])
        active = len(requests)
        while active:
            logits = self._step(feed, active)
            chosen, scores = self._choose(
                logits, [requests[order[row]] for row in range(active)], emitted, order
            )
            for row in range(active - 1, -1, -1):
                index = order[row]
                cache.tokens[row].extend(feed[row])
                token = chosen[row]
                emitted[index].append(token)
                logprobs[index].append(scores[row])
                feed[row] = [token]
                if token in self.tokenizer.end_ids or len(emitted[index]) >= limits[index]:
                    active -= 1
                    cache.swap(row, active)
                    order[row], order[active] = order[active], order[row]
                    feed[row], feed[active] = feed[active], feed[row]
        return {
            request.conversation: Generation(
                tuple(emitted[index]),
                tuple(logprobs[index]),
                "stop" if emitted[index][-1] in self.tokenizer.end_ids else "length",
            )
            for index, request in enumerate(requests)
        }

    def _step(self, feed: Sequence[Sequence[int]], active: int) -> torch.Tensor:
        """Feed the first ``active`` rows their new tokens; logits (active, vocabulary) after each row's last."""
        cache = self._cache
        counts = [len(feed[row]) for row in range(active)]
        starts = [len(cache.tokens[row]) for row in range(active)]
        width = max(counts)
        ids = torch.tensor(
            [[*feed[row], *[0] * (width - counts[row])] for row in range(active)], device=self.device
        )
        positions = torch.tensor(starts, device=self.device)[:, None] + torch.arange(
            width, device=self.device
        )
        # The cache keeps the last position of every row free for padding that would run over the row's end.
        positions = positions.clamp_(max=cache.capacity - 1)
        length = max(start + count for start, count in zip(starts, counts, strict=True))
        cache.begin(positions, length)
        last = torch.tensor(counts, device=self.device) - 1
        return self._forward(ids, positions, last, length, cache)

    def _choose(
        self,
        logits: torch.Tensor,
        requests: Sequence[GenerationRequest],
        emitted: Sequence[Sequence[int]],
        order: Sequence[int],
    ) -> tuple[list[int], list[float]]:
        """Next token of each active row, with its log-probability at the row's temperature."""
        scaled = logits.float()
        temperatures = [r.temperature for r in requests]
        sampled = [row for row, t in enumerate(temperatures) if t > 0]
        if sampled:
            divisors = torch.tensor([t if t > 0 else 1.0 for t in temperatures], device=scaled.device)
            scaled = scaled / divisors[:, None]
        chosen = scaled.argmax(dim=-1)
        if sampled:
            cumulative = torch.softmax(scaled[sampled].double(), dim=-1).cumsum_(dim=-1)
            draws = torch.tensor(
                [uniform(requests[row].seed, len(emitted[order[row]])) for row in sampled],
                dtype=torch.float64,
                device=scaled.device,
            )
            points = draws * cumulative[:, -1]
            picks = torch.searchsorted(cumulative, points[:, None], right=True).squeeze(1)
            chosen[sampled] = picks.clamp_(max=scaled.shape[-1] - 1)
        scores = scaled.gather(1, chosen[:, None]).squeeze(1) - scaled.logsumexp(dim=-1)
        return chosen.tolist(), scores.tolist()
