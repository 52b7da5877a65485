"""The arithmetic of GRPO against values worked by hand."""

import math

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from baselines.grpo_loss import (
    Clip,
    TokenSequence,
    group_advantages,
    kl_k3,
    pad,
    policy_loss,
    token_logprobs,
    token_sequences,
    trajectory_weights,
)
from harness.interfaces import Action, Observation, StepResult, Turn


def turn(prompt, emitted, logprobs=None):
    return Turn(
        Observation(""), tuple(prompt), tuple(emitted), tuple(logprobs or [-1.0] * len(emitted)), "", Action("x"),
        "stop", StepResult(Observation(""), 0.0, False), 0.0, 0.0,
    )  # fmt: skip


def small_model(seed=0):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.5,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


def test_group_scale_divides_by_the_groups_sample_deviation():
    found = group_advantages([[1.0, 0.0], [0.0, 3.0, 3.0]], "group")
    # Deviations: of 1, 0 it is sqrt(1/2); of 0, 3, 3 it is sqrt((4 + 1 + 1) / 2) = sqrt 3.
    a, b = 1 / (math.sqrt(0.5) + 1e-4), 1 / (math.sqrt(3) + 1e-4)
    assert found.values[0] == pytest.approx((0.5 * a, -0.5 * a), rel=1e-12)
    assert found.values[1] == pytest.approx((-2 * b, b, b), rel=1e-12)


def test_batch_scale_divides_by_the_deviation_of_all_returns():
    found = group_advantages([[1.0, 0.0], [0.0, 3.0]], "batch")
    # Mean 1, squared deviations 0 + 1 + 1 + 4 = 6, over 3.
    a = 1 / (math.sqrt(2) + 1e-4)
    assert found.values == (
        pytest.approx((0.5 * a, -0.5 * a), rel=1e-12),
        pytest.approx((-1.5 * a, 1.5 * a), rel=1e-12),
    )


def test_no_scale_only_subtracts_the_groups_mean():
    assert group_advantages([[1.0, 0.0], [0.0, 3.0]], "none").values == ((0.5, -0.5), (-1.5, 1.5))


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_group_of_equal_returns_teaches_nothing_and_is_counted(scale):
    found = group_advantages([[0.1, 0.1, 0.1], [0.0, 1.0], [2.0]], scale)
    assert found.all_equal == (True, False, True)
    assert found.values[0] == (0.0, 0.0, 0.0)
    assert found.values[2] == (0.0,)


def test_an_episode_whose_prompts_go_on_is_one_sequence_of_the_sampled_ids():
    turns = [turn([1, 2], [3, 4], [-0.5, -0.25]), turn([1, 2, 3, 4, 9, 9], [5], [-2.0])]
    assert token_sequences(turns) == [
        TokenSequence(
            (1, 2, 3, 4, 9, 9, 5),
            (False, False, True, True, False, False, True),
            (0.0, 0.0, -0.5, -0.25, 0.0, 0.0, -2.0),
        )
    ]


def test_a_prompt_written_afresh_begins_a_sequence():
    found = token_sequences([turn([1, 2], [3]), turn([1, 7], [4]), turn([1, 7, 4, 8], [])])
    assert [s.ids for s in found] == [(1, 2, 3), (1, 7, 4, 8)]
    assert [s.sampled_tokens for s in found] == [1, 1]


def test_an_episode_without_a_sampled_token_has_no_sequence():
    assert token_sequences([turn([1, 2], [])]) == []


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_each_sequence_alone(temperature):
    model = small_model()
    sequences = [
        TokenSequence((1, 2, 3, 4, 5), (False, True, False, True, True), (0.0, -1.0, 0.0, -2.0, -3.0)),
        TokenSequence((6, 7, 8), (False, False, True), (0.0, 0.0, -4.0)),
    ]
    batch = pad(sequences)
    got, entropy = token_logprobs(model, batch, temperature)
    expected, expected_entropy = [], []
    with torch.no_grad():
        for sequence in sequences:
            for i, sampled in enumerate(sequence.sampled):
                if sampled:
                    logits = model(torch.tensor([sequence.ids[:i]])).logits[0, -1].double() / temperature
                    p = torch.softmax(logits, 0)
                    expected.append(float(p[sequence.ids[i]].log()))
                    expected_entropy.append(float(-(p * p.log()).sum()))
    assert got.tolist() == pytest.approx(expected, abs=1e-5)
    assert entropy.tolist() == pytest.approx(expected_entropy, abs=1e-5)
    assert batch.sampler.tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert batch.rows.tolist() == [0, 0, 0, 1]


def test_weights_of_each_loss_type():
    assert trajectory_weights([1, 3], "dapo", 10) == [1 / 4, 1 / 4]
    assert trajectory_weights([1, 3], "grpo", 10) == [1 / 2, 1 / 6]
    assert trajectory_weights([1, 3], "dr_grpo", 10) == [1 / 20, 1 / 20]


def loss_of(ratios, advantages, clip, **more):
    old = torch.full((len(ratios),), -1.0)
    current = (old + torch.tensor(ratios).log()).requires_grad_()
    found = policy_loss(
        current, old, torch.tensor(advantages), torch.full((len(ratios),), 1 / len(ratios)), clip, **more
    )
    found.value.backward()
    return found, current.grad


def test_the_clip_holds_the_ratio_where_it_went_too_far_and_only_there():
    # A > 0: 1.5 is held at 1.3 (no gradient), 0.5 is not. A < 0: 0.5 is held at 0.8, 1.5 is not.
    found, gradient = loss_of([1.5, 0.5, 0.5, 1.5], [2.0, 2.0, -2.0, -2.0], Clip(low=0.2, high=0.3))
    assert float(found.value.detach()) == pytest.approx((-2.6 - 1.0 + 1.6 + 3.0) / 4, rel=1e-6)
    # d(-ratio * A)/d(log p) = -ratio * A.
    assert gradient.tolist() == pytest.approx([0.0, -0.25, 0.0, 0.75], rel=1e-6)
    assert found.clipped == 2


def test_k3_by_hand_and_its_coefficient_in_the_loss():
    reference = torch.tensor([-1.0 + math.log(2)])
    assert float(kl_k3(torch.tensor([-1.0]), reference)) == pytest.approx(2 - math.log(2) - 1, rel=1e-6)
    found, gradient = loss_of([1.0], [0.0], Clip(kl=0.5), reference=reference)
    assert float(found.value.detach()) == pytest.approx(0.5 * (1 - math.log(2)), rel=1e-6)
    # d k3 / d(log p) = 1 - exp(reference - log p) = 1 - 2.
    assert gradient.tolist() == pytest.approx([-0.5], rel=1e-6)


def test_the_importance_weight_is_truncated_and_carries_no_gradient():
    sampler = torch.tensor([-1.0 - math.log(4), -1.0 + math.log(2)])  # weights 4, held at 3, and 1/2
    found, gradient = loss_of([1.0, 1.0], [1.0, 1.0], Clip(importance_cap=3.0), sampler=sampler)
    assert float(found.value.detach()) == pytest.approx(-(3.0 + 0.5) / 2, rel=1e-6)
    assert gradient.tolist() == pytest.approx([-1.5, -0.25], rel=1e-6)


def test_what_a_loss_needs_and_does_not_get_is_an_error():
    with pytest.raises(ValueError, match="sampler"):
        loss_of([1.0], [1.0], Clip(importance_cap=2.0))
    with pytest.raises(ValueError, match="reference"):
        loss_of([1.0], [1.0], Clip(kl=0.1))
