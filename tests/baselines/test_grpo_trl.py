"""Loss and gradients against the loss code of TRL (`GRPOTrainer._compute_loss`) on the same batch, for each loss type."""

import types
from collections import defaultdict

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOTrainer

from baselines.grpo_loss import (
    Clip,
    LossType,
    TokenSequence,
    pad,
    policy_loss,
    token_logprobs,
    trajectory_weights,
)

LOW, HIGH, KL, CAP, LONGEST, PROMPT = 0.15, 0.3, 0.1, 1.2, 12, 3


def model_of(seed):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=13, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.4,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).train()


class Accelerator:
    """One process."""

    num_processes = 1
    reduce = staticmethod(lambda value, reduction: value)
    gather = staticmethod(lambda value: value)


def per_token_logps(model, ids, attention, logits_to_keep, **kwargs):
    """What TRL's fused head gives: log-probability and entropy of each of the last tokens."""
    logits = model(input_ids=ids, attention_mask=attention).logits[:, -logits_to_keep - 1 : -1]
    every = logits.log_softmax(-1)
    entropy = -(every.exp() * every).sum(-1)
    return every.gather(-1, ids[:, -logits_to_keep:, None]).squeeze(-1), entropy, None


def trl_loss(model, loss_type, inputs, kl, capped):
    trainer = types.SimpleNamespace(
        model=model, accelerator=Accelerator(), loss_type=loss_type, beta=kl, epsilon_low=LOW, epsilon_high=HIGH,
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level="token",
        args=types.SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        use_vllm=capped, vllm_importance_sampling_correction=capped, max_completion_length=LONGEST,
        current_gradient_accumulation_steps=1, _entropy_bonus_enabled=False, aux_loss_enabled=False,
        _get_per_token_logps_and_entropies=per_token_logps, _metrics={"train": defaultdict(list)},
    )  # fmt: skip
    return GRPOTrainer._compute_loss(trainer, model, inputs)


@pytest.mark.parametrize("loss_type", LossType.__args__)
@pytest.mark.parametrize(("kl", "capped"), [(0.0, False), (KL, True)], ids=["plain", "kl and importance cap"])
def test_loss_and_gradients_are_those_of_trl(loss_type, kl, capped):
    generator = torch.Generator().manual_seed(5)
    lengths = [5, 9, 12, 7]
    # Completions of several turns: what the environment wrote between them is masked out.
    sampled = [torch.rand(n, generator=generator) < 0.7 for n in lengths]
    for mask in sampled:
        mask[0] = True
    ids = [torch.randint(1, 13, (PROMPT + n,), generator=generator) for n in lengths]
    noise = [0.4 * torch.randn(2, n, generator=generator) for n in lengths]
    advantages = torch.tensor([1.3, -0.4, -0.9, 0.7])
    reference, theirs, ours = model_of(2), model_of(1), model_of(1)

    def padded(rows, dtype=torch.float32):
        return torch.stack([torch.nn.functional.pad(row.to(dtype), (0, 12 - len(row))) for row in rows])

    tokens = torch.stack([torch.nn.functional.pad(row, (0, PROMPT + 12 - len(row))) for row in ids])
    present = padded([torch.ones(n) for n in lengths], torch.long)
    with torch.no_grad():
        everything = torch.cat([torch.ones(4, PROMPT, dtype=torch.long), present], 1)
        base = per_token_logps(theirs, tokens, everything, 12)[0]
        old = base + padded([n[0] for n in noise])
        sampler = old + padded([n[1] for n in noise])
        inputs = {
            "prompt_ids": tokens[:, :PROMPT],
            "prompt_mask": torch.ones(4, PROMPT, dtype=torch.long),
            "completion_ids": tokens[:, PROMPT:],
            "completion_mask": present,
            "tool_mask": padded(sampled, torch.long),
            "advantages": advantages,
            "old_per_token_logps": old,
            "ref_per_token_logps": per_token_logps(reference, tokens, everything, 12)[0],
            "importance_sampling_ratio": (old - sampler).exp().clamp(max=CAP),
            "num_items_in_batch": torch.tensor(float(sum(int(mask.sum()) for mask in sampled))),
        }
    expected = trl_loss(theirs, loss_type, inputs, kl, capped)
    expected.backward()

    sequences = [
        TokenSequence(
            tuple(row.tolist()),
            (*[False] * PROMPT, *mask.tolist()),
            (*[0.0] * PROMPT, *sampler[i, : len(mask)].tolist()),
        )
        for i, (row, mask) in enumerate(zip(ids, sampled, strict=True))
    ]
    weights = torch.tensor(trajectory_weights([s.sampled_tokens for s in sequences], loss_type, LONGEST))
    before = [old[i, : len(mask)][mask] for i, mask in enumerate(sampled)]
    total = 0.0
    # Two micro-batches: their sum is the loss of the batch.
    for part in (slice(0, 1), slice(1, 4)):
        batch = pad(sequences[part])
        with torch.no_grad():
            against = token_logprobs(reference, batch)[0]
        loss = policy_loss(
            token_logprobs(ours, batch)[0],
            torch.cat(before[part]),
            advantages[part][batch.rows],
            weights[part][batch.rows],
            Clip(LOW, HIGH, CAP if capped else None, kl),
            sampler=batch.sampler,
            reference=against,
        )
        loss.value.backward()
        total += float(loss.value.detach())
    assert total == pytest.approx(float(expected.detach()), abs=1e-5)
    assert abs(total) > 1e-3, "a loss of nothing would agree with anything"
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-5, msg=name)
