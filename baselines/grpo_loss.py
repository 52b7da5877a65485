"""The arithmetic of GRPO: pure functions over tensors. Which episodes, which updates and which files is ``baselines/grpo.py``.

Everything token-wise is flat: one element per sampled token of a batch of sequences, in the order of :func:`pad`'s mask. A
token's share in the loss (``weight``) is fixed before the forward pass, from the lengths of all trajectories of a mini-batch, so
that the sum over micro-batches of any size is the loss of the mini-batch exactly.

    ratio_t = exp(log p_theta(t) - log p_old(t))
    loss    = sum_t weight_t * (-c_t * min(ratio_t * A_t, clip(ratio_t, 1 - low, 1 + high) * A_t) + beta * k3_t)
    c_t     = min(exp(log p_old(t) - log p_sampler(t)), cap)        truncated importance sampling; 1 without a cap
    k3_t    = exp(log p_ref(t) - log p_theta(t)) - (log p_ref(t) - log p_theta(t)) - 1

Sources: GRPO (arXiv 2402.03300), DAPO (2503.14476: token mean, two clips), Dr. GRPO (2503.20783), k3 (J. Schulman, "Approximating
KL divergence"), truncated importance sampling (Yao et al., "Your efficient RL framework secretly brings you off-policy RL").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from harness.interfaces import Turn

ScaleRewards = Literal["group", "batch", "none"]
LossType = Literal["dapo", "grpo", "dr_grpo"]

STD_FLOOR = 1e-4
"""Added to the standard deviation that returns are divided by."""


# ------------------------------------------------------------------------------------------------------- advantages


@dataclass(frozen=True, slots=True)
class Advantages:
    """``values``: one advantage per trajectory, grouped as given. ``all_equal``: for each group, whether its returns are all the
    same, so that it teaches nothing."""

    values: tuple[tuple[float, ...], ...]
    all_equal: tuple[bool, ...]


def group_advantages(groups: Sequence[Sequence[float]], scale: ScaleRewards) -> Advantages:
    """Advantages over trajectories: each return less its group's mean, divided by a standard deviation (ddof 1, plus
    ``STD_FLOOR``): of its group (``group``), of all returns (``batch``), or by nothing (``none``).

    groups: returns of the trajectories of each group (same task, same environment seed); groups may differ in size.
    """
    overall = _std([value for group in groups for value in group])
    all_equal = tuple(all(value == group[0] for value in group) for group in groups)
    values = []
    for group, equal in zip(groups, all_equal, strict=True):
        mean = math.fsum(group) / max(len(group), 1)
        divisor = {"group": _std(group) + STD_FLOOR, "batch": overall + STD_FLOOR, "none": 1.0}[scale]
        values.append(tuple(0.0 if equal else (value - mean) / divisor for value in group))
    return Advantages(tuple(values), all_equal)


def _std(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


# -------------------------------------------------------------------------------------------------------- sequences


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids that the policy has seen in one piece. ``sampled[i]``: the policy emitted token i; ``logprobs[i]`` is then its
    log-probability as the sampler gave it (0 elsewhere)."""

    ids: tuple[int, ...]
    sampled: tuple[bool, ...]
    logprobs: tuple[float, ...]

    @property
    def sampled_tokens(self) -> int:
        return sum(self.sampled)


def token_sequences(turns: Sequence[Turn]) -> list[TokenSequence]:
    """The sequences of one episode, of exactly the ids that were sampled and shown. One for the whole episode while each prompt
    goes on from the prompt and the reply before it; a new one from every turn whose prompt was written afresh. A sequence with
    no sampled token is left out."""
    sequences: list[TokenSequence] = []
    ids: list[int] = []
    sampled: list[bool] = []
    logprobs: list[float] = []

    def close() -> None:
        if any(sampled):
            sequences.append(TokenSequence(tuple(ids), tuple(sampled), tuple(logprobs)))

    for turn in turns:
        if list(turn.prompt_ids[: len(ids)]) != ids:
            close()
            ids, sampled, logprobs = [], [], []
        shown = turn.prompt_ids[len(ids) :]
        ids += [*shown, *turn.token_ids]
        sampled += [False] * len(shown) + [True] * len(turn.token_ids)
        logprobs += [0.0] * len(shown) + list(turn.logprobs)
    close()
    return sequences


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded sequences. ids, attention: (rows, length). mask: (rows, length - 1), true where the *next* token was sampled.
    rows: (sampled tokens), the row of each. sampler: (sampled tokens), the sampler's log-probabilities."""

    ids: torch.Tensor
    attention: torch.Tensor
    mask: torch.Tensor
    rows: torch.Tensor
    sampler: torch.Tensor


def pad(sequences: Sequence[TokenSequence], device: torch.device | str = "cpu") -> Batch:
    length = max(len(sequence.ids) for sequence in sequences)

    def filled(values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(
            [[*value, *[0] * (length - len(value))] for value in values], dtype=dtype, device=device
        )

    ids = filled([s.ids for s in sequences], torch.long)
    attention = filled([[1] * len(s.ids) for s in sequences], torch.long)
    # A token at position 0 has no context to be scored from; prompts are never empty, so it is never a sampled one.
    mask = filled([s.sampled for s in sequences], torch.bool)[:, 1:]
    sampler = filled([s.logprobs for s in sequences], torch.float32)[:, 1:]
    return Batch(ids, attention, mask, mask.nonzero()[:, 0], sampler[mask])


def token_logprobs(model: Any, batch: Batch, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """``(log-probabilities, entropies)`` of the sampled tokens, (sampled tokens) each, natural log, fp32, at the temperature that
    they were sampled with. ``model`` is a Hugging Face causal language model."""
    logits = model(input_ids=batch.ids, attention_mask=batch.attention, use_cache=False).logits
    wanted = logits[:, :-1][batch.mask].float() / temperature
    every = torch.log_softmax(wanted, dim=-1)
    with torch.no_grad():
        entropy = -(every.exp() * every).sum(dim=-1)
    return every.gather(1, batch.ids[:, 1:][batch.mask][:, None]).squeeze(1), entropy


# ------------------------------------------------------------------------------------------------------------- loss


def trajectory_weights(lengths: Sequence[int], loss_type: LossType, maximum: int) -> list[float]:
    """Weight of each token of each trajectory of a mini-batch, given the trajectories' sampled tokens that take part.

    dapo: 1 / all tokens (token mean). grpo: 1 / (trajectories * the trajectory's tokens) (mean of sequence means).
    dr_grpo: 1 / (trajectories * maximum), ``maximum`` being a constant: the most tokens that a trajectory can have.
    """
    total, count = sum(lengths), len(lengths)
    if loss_type == "dapo":
        return [1.0 / max(total, 1)] * count
    if loss_type == "grpo":
        return [1.0 / (count * max(length, 1)) for length in lengths]
    return [1.0 / (count * maximum)] * count


def kl_k3(current: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """The k3 estimate of KL(current || reference) at each sampled token: unbiased, never negative."""
    difference = reference - current
    return difference.exp() - difference - 1.0


@dataclass(frozen=True, slots=True)
class Clip:
    """The ratio is clipped to [1 - low, 1 + high]. importance_cap: cap of the sampler/trainer importance weight (None: none).
    kl: coefficient of the KL term."""

    low: float = 0.2
    high: float = 0.2
    importance_cap: float | None = None
    kl: float = 0.0


@dataclass(frozen=True, slots=True)
class Loss:
    """``value`` carries gradients; the rest are sums over tokens, without: tokens that the clip holds, and k3."""

    value: torch.Tensor
    clipped: float
    kl: float


def policy_loss(
    current: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    clip: Clip,
    *,
    sampler: torch.Tensor | None = None,
    reference: torch.Tensor | None = None,
) -> Loss:
    """The loss of the module docstring. All tensors are (sampled tokens); only ``current`` needs gradients.

    sampler: needed with ``clip.importance_cap``. reference: needed with ``clip.kl``.
    """
    ratio = torch.exp(current - old)
    limited = ratio.clamp(1.0 - clip.low, 1.0 + clip.high)
    per_token = -torch.minimum(ratio * advantages, limited * advantages)
    if clip.importance_cap is not None:
        if sampler is None:
            raise ValueError("importance_cap needs the sampler's log-probabilities")
        per_token = per_token * torch.exp(old - sampler).clamp(max=clip.importance_cap).detach()
    k3 = torch.zeros_like(current) if reference is None else kl_k3(current, reference)
    if clip.kl:
        if reference is None:
            raise ValueError("kl needs the reference's log-probabilities")
        per_token = per_token + clip.kl * k3
    held = ((ratio < 1.0 - clip.low) & (advantages < 0)) | ((ratio > 1.0 + clip.high) & (advantages > 0))
    return Loss((per_token * weights).sum(), float(held.sum()), float(k3.detach().sum()))
