"""The learner of GRPO: fp32 weights that carry gradients, AdamW, and both in files. It knows nothing of runs and workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from baselines.grpo_loss import (
    Batch,
    Clip,
    LossType,
    TokenSequence,
    kl_k3,
    pad,
    policy_loss,
    token_logprobs,
    trajectory_weights,
)
from harness import files, streams
from harness.config import Table
from harness.errors import InfrastructureError, RequestError


class LearnerSettings(Table):
    learning_rate: float = Field(default=3e-4, gt=0)
    """Of AdamW."""
    warmup: int = Field(default=0, ge=0)
    """Optimiser steps over which the learning rate rises linearly from 0 to its value, where it stays."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of AdamW, decoupled."""
    max_gradient_norm: float = Field(default=1.0, ge=0)
    """A longer gradient is scaled down to this length; 0: never."""
    clip_low: float = Field(default=0.2, ge=0, le=1)
    """The probability ratio is clipped from below to 1 less this."""
    clip_high: float = Field(default=0.2, ge=0)
    """The probability ratio is clipped from above to 1 plus this."""
    kl: float = Field(default=0.0, ge=0)
    """Coefficient of the k3 estimate of the KL divergence to the base policy; 0 needs no reference model."""
    loss_type: LossType = "dapo"
    """From tokens to a loss: mean over tokens (dapo), over trajectories of their token means (grpo), or sum over a constant
    (dr_grpo)."""
    importance_cap: float | None = Field(default=None, gt=0)
    """Truncated importance sampling for what sampler and trainer disagree on: weights up to this; by default none."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the trajectories of an update."""
    mini_batches: int = Field(default=1, ge=1)
    """Optimiser steps per pass, each on a share of the trajectories."""
    micro_batch_tokens: int = Field(default=16384, ge=1)
    """Positions, padding included, that one forward pass takes at most (one sequence at least); changes memory, not results."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward and backward pass; weights and optimiser are fp32."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass, to save memory."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A trajectory to learn from. No sequences: it counts in the means and has no token in the loss."""

    sequences: tuple[TokenSequence, ...]
    advantage: float

    @property
    def tokens(self) -> int:
        return sum(sequence.sampled_tokens for sequence in self.sequences)


@dataclass(frozen=True, slots=True)
class _Row:
    """One sequence with what its tokens share; ``old`` holds their log-probabilities before the first step, where needed."""

    sequence: TokenSequence
    advantage: float
    weight: float
    old: torch.Tensor | None


class Learner:
    """model: a Hugging Face causal language model in fp32, whose parameters are trained in place. reference: as it was at the
    start, for the KL term. longest: the most tokens that a trajectory can have (Dr. GRPO). ``steps``: optimiser steps so far."""

    def __init__(
        self,
        model: Any,
        settings: LearnerSettings,
        run_seed: int,
        *,
        temperature: float,
        longest: int,
        reference: Any = None,
    ) -> None:
        self.settings = settings
        self.steps = 0
        self._model = model
        self._reference = reference
        self._seed = run_seed
        self._temperature = temperature
        self._longest = longest
        self._parameters = dict(sorted(model.named_parameters(remove_duplicate=True)))
        model.requires_grad_(True)
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()  # transformers recomputes only in training mode
        self._device = next(iter(self._parameters.values())).device
        self._optimizer = torch.optim.AdamW(
            self._parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    # -------------------------------------------------------------------------------------------- weights and files

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: parameter.detach() for name, parameter in self._parameters.items()}

    def set_weights(self, weights: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(weights[name])

    def save_optimizer(self, path: Path) -> None:
        """Step count and both moments as safetensors, whole or not at all."""
        state = {"steps": torch.tensor(self.steps)}
        for name, parameter in self._parameters.items():
            for key, value in self._optimizer.state.get(parameter, {}).items():
                state[f"{key}.{name}"] = value.detach().cpu().contiguous()
        files.write_bytes(path, save(state))

    def load_optimizer(self, path: Path) -> None:
        """Raises RequestError where there is no such file, or it belongs to another model."""
        try:
            state = load_file(str(path))
            self.steps = int(state["steps"])
            if self.steps == 0:
                return
            for name, parameter in self._parameters.items():
                moments = {key: state[f"{key}.{name}"] for key in ("exp_avg", "exp_avg_sq")}
                self._optimizer.state[parameter] = {
                    "step": state[f"step.{name}"],
                    **{key: value.to(self._device) for key, value in moments.items()},
                }
        except (OSError, SafetensorError, KeyError) as error:
            raise RequestError(
                f"{path}: no state of this optimiser can be read ({error}); accepted: the file that the run wrote with its "
                "last update"
            ) from error

    # ------------------------------------------------------------------------------------------------- one update

    def learn(self, version: int, samples: Sequence[Sample]) -> dict[str, float | None]:
        """All epochs and mini-batches of one update. Returns what is logged of it (see ``docs/grpo.md``). Where no advantage
        differs from 0 and there is no KL term, nothing is changed."""
        s = self.settings
        book = _Book()
        shares = list(self._shares(version, len(samples)))
        known: dict[int, torch.Tensor] = {}
        if len(shares) > 1:
            with torch.no_grad():
                for some in self._micro_batches(_rows(samples, [0.0] * len(samples), known, s.kl > 0)):
                    batch = pad([row.sequence for row in some], self._device)
                    values = self._logprobs(self._model, batch)[0]
                    for index, row in enumerate(some):
                        known[id(row.sequence)] = values[batch.rows == index]
        for share in shares:
            chosen = [samples[i] for i in share]
            weights = trajectory_weights([sample.tokens for sample in chosen], s.loss_type, self._longest)
            rows = _rows(chosen, weights, known, s.kl > 0)
            if rows:
                self._step(rows, book)
        return book.summary()

    def _shares(self, version: int, count: int) -> Iterator[list[int]]:
        """Indices of the trajectories of each optimiser step: in their order when there is one mini-batch, else shuffled."""
        for epoch in range(self.settings.epochs):
            parts = min(self.settings.mini_batches, count)
            order = list(range(count))
            if parts > 1:
                generator = streams.stream(self._seed, "mini-batches", version, epoch)
                order = generator.permutation(count).tolist()
            for part in range(parts):
                yield sorted(order[part * count // parts : (part + 1) * count // parts])

    def _micro_batches(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        """Rows of similar length together, at most ``micro_batch_tokens`` positions with their padding."""
        batch: list[_Row] = []
        for row in sorted(rows, key=lambda row: len(row.sequence.ids)):
            if batch and (len(batch) + 1) * len(row.sequence.ids) > self.settings.micro_batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _logprobs(self, model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            return token_logprobs(model, batch, self._temperature)

    def _step(self, rows: Sequence[_Row], book: _Book) -> None:
        s = self.settings
        clip = Clip(s.clip_low, s.clip_high, s.importance_cap, s.kl)
        self._optimizer.zero_grad(set_to_none=True)
        for some in self._micro_batches(rows):
            batch = pad([row.sequence for row in some], self._device)
            current, entropy = self._logprobs(self._model, batch)
            old = [row.old for row in some if row.old is not None]
            before = torch.cat(old) if old else current.detach()
            reference = None
            if self._reference is not None:
                with torch.no_grad():
                    reference = self._logprobs(self._reference, batch)[0]

            def spread(values: list[float], rows: torch.Tensor = batch.rows) -> torch.Tensor:
                return torch.tensor(values, dtype=torch.float32, device=self._device)[rows]

            loss = policy_loss(
                current,
                before,
                spread([row.advantage for row in some]),
                spread([row.weight for row in some]),
                clip,
                sampler=batch.sampler,
                reference=reference,
            )
            loss.value.backward()
            book.add(loss.clipped, loss.kl if reference is not None else None, entropy, before, batch.sampler)
        limit = s.max_gradient_norm or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters.values(), limit))
        if not math.isfinite(norm):
            raise InfrastructureError(
                f"the gradient of optimiser step {self.steps + 1} is not finite (its norm is {norm}); accepted: a run that does "
                "not diverge, as with a lower learning_rate"
            )
        book.norms.append(norm)
        self.steps += 1
        for group in self._optimizer.param_groups:
            group["lr"] = s.learning_rate * min(1.0, self.steps / max(s.warmup, 1))
        self._optimizer.step()


def _rows(
    samples: Sequence[Sample], weights: Sequence[float], known: dict[int, torch.Tensor], all_of_them: bool
) -> list[_Row]:
    """The sequences that have a gradient: with a KL term all, otherwise those whose advantage is not 0."""
    return [
        _Row(sequence, sample.advantage, weight, known.get(id(sequence)))
        for sample, weight in zip(samples, weights, strict=True)
        if all_of_them or sample.advantage != 0.0
        for sequence in sample.sequences
    ]


class _Book:
    """Means over the tokens of an update's forward passes."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.tokens = 0
        self.clipped = self.entropy = self.mismatch = self.mismatch_kl = self.mismatch_max = 0.0
        self.kl: float | None = None

    def add(
        self,
        clipped: float,
        kl: float | None,
        entropy: torch.Tensor,
        before: torch.Tensor,
        sampler: torch.Tensor,
    ) -> None:
        difference = (before - sampler).abs()
        self.tokens += len(before)
        self.clipped += clipped
        self.kl = None if kl is None else (self.kl or 0.0) + kl
        self.entropy += float(entropy.sum())
        self.mismatch += float(difference.sum())
        self.mismatch_max = max(self.mismatch_max, float(difference.max()))
        self.mismatch_kl += float(kl_k3(sampler, before).sum())

    def summary(self) -> dict[str, float | None]:
        if not self.norms:
            return {"steps": 0}
        return {
            "steps": len(self.norms),
            "gradient_norm": sum(self.norms) / len(self.norms),
            "clipped": self.clipped / self.tokens,
            "kl": None if self.kl is None else self.kl / self.tokens,
            "entropy": self.entropy / self.tokens,
            "mismatch_mean": self.mismatch / self.tokens,
            "mismatch_max": self.mismatch_max,
            "mismatch_kl": self.mismatch_kl / self.tokens,
        }
