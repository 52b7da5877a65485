"""GRPO on the real rollout path: whole small runs, cut runs, and the learner by itself."""

import json
import shutil

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from baselines.grpo import GRPO, GRPOSettings, _Group, _samples
from baselines.grpo_learner import Learner, LearnerSettings, Sample
from baselines.grpo_loss import TokenSequence
from harness import registry
from harness.audit import audit
from harness.errors import RequestError
from harness.interfaces import Action, Observation, StepResult, Trajectory, Turn
from harness.replay import replay
from harness.run import resume
from harness.rundir import RunDirectory
from tests.runs import play, results_of, weights_of

RAW = {
    "seed": 5,
    "method": {
        "name": "grpo",
        "updates": 3,
        "tasks": 4,
        "samples": 4,
        "groups_per_job": 2,
        "resamples": 2,
        "epochs": 2,
        "mini_batches": 2,
        "kl": 0.01,
    },
    "evaluation": {"limit": 4, "subset": 3, "every": 1, "seeds": 1},
    "workers": {"count": 2},
    "record": {"trajectories": "all"},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = play(RAW, tmp_path_factory.mktemp("grpo") / "run")
    moves = [e for e in run.read_events() if e["kind"] == "updated" and not e["empty"]]
    assert moves, "equal hashes would prove nothing"
    return run


def updates_of(run):
    return [e for e in run.read_events() if e["kind"] == "updated"]


def test_the_audit_finds_every_group_consumed_once(whole):
    found = audit(whole.read_events(), GRPO(whole.experiment().method).cohorts(5))
    assert found.problems == ()
    assert (found.dispatched, found.consumed, found.staleness) == (12, 12, {0: 12})


def test_each_group_is_one_task_and_each_update_says_what_it_cost(whole):
    events = whole.read_events()
    for event in events:
        if event["kind"] == "finished":
            assert len({task for task, _ in event["task_returns"]}) == 1
            assert event["episodes"] == len(event["task_returns"]) == 4
            assert event["fitness"] == pytest.approx(sum(r for _, r in event["task_returns"]) / 4)
    assert [e["optimizer_steps"] for e in updates_of(whole)] == [4, 8, 12]
    assert events[-1]["totals"]["episodes"] == sum(e["episodes"] for e in events if e["kind"] == "finished")
    for event in updates_of(whole):
        last = {e["member"]: e["task_returns"] for e in events if e["kind"] == "finished"}
        equal = [len({r for _, r in last[entry["member"]]}) == 1 for entry in event["cohort"]]
        assert [entry["all_equal"] for entry in event["cohort"]] == equal
        assert event["all_equal"] == sum(equal)


def test_sampler_and_trainer_agree_on_what_was_sampled(whole):
    first = updates_of(whole)[0]["learner"]
    # The sampler's cached, hand-written pass and the trainer's are the same function in other orders of summing.
    assert 0 < first["mismatch_max"] < 1e-3
    assert first["mismatch_kl"] < 1e-6


def test_groups_of_equal_returns_are_drawn_again_within_the_budget(whole):
    dispatched = [e for e in whole.read_events() if e["kind"] == "dispatched"]
    again = [e for e in dispatched if e["attempt"] > 1]
    assert again, "nothing was drawn again"
    for version in range(3):
        assert sum(e["version"] == version for e in again) <= 2
    tasks = {}
    for event in whole.read_events():
        if event["kind"] == "finished":
            tasks.setdefault(event["version"], []).append(event["task_returns"][0][0])
    assert all(len(set(names)) == len(names) for names in tasks.values())


def test_the_last_two_checkpoints_are_kept(whole):
    names = sorted(path.name for path in (whole.path / "checkpoints").iterdir())
    assert names == [f"v00000{v}{part}.safetensors" for v in (2, 3) for part in ("-optimizer", "")]


def test_a_run_on_another_number_of_workers_has_the_same_results(whole, tmp_path):
    again = play({**RAW, "workers": {"count": 1}}, tmp_path / "again")
    assert results_of(again) == results_of(whole)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["first group", "before an update", "after an update", "the end"])
def test_a_run_cut_after_any_event_resumes_to_the_same_results(where, whole, tmp_path):
    lines = (whole.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in lines]
    updated = [i for i, kind in enumerate(kinds) if kind == "updated"]
    cut = {
        "first group": kinds.index("finished") + 1,
        "before an update": updated[2],
        "after an update": updated[2] + 1,
        "the end": len(lines) - 1,
    }[where]
    copy = shutil.copytree(whole.path, tmp_path / "cut")
    (copy / "events.jsonl").write_bytes(b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
    (copy / "final.safetensors").unlink()
    resume(copy)
    assert results_of(RunDirectory.existing(copy)) == results_of(whole)
    assert (
        audit(RunDirectory.existing(copy).read_events(), GRPO(GRPOSettings(tasks=4)).cohorts(5)).problems
        == ()
    )


def test_a_run_whose_optimiser_is_gone_is_refused_by_name(whole, tmp_path):
    copy = shutil.copytree(whole.path, tmp_path / "copy")
    lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    (copy / "checkpoints" / "v000003-optimizer.safetensors").write_bytes(b"no")
    with pytest.raises(RequestError, match=r"v000003-optimizer\.safetensors"):
        resume(copy)


def test_a_run_of_weight_files_has_no_seed_log_to_replay(whole):
    with pytest.raises(RequestError, match="no seed log"):
        replay(whole)


def test_final_weights_are_those_of_the_last_file(whole):
    final = (whole.path / "final.safetensors").read_bytes()
    assert final == (whole.path / "checkpoints" / "v000003.safetensors").read_bytes()
    assert weights_of(whole) == updates_of(whole)[-1]["weights_sha256"]


def test_more_tasks_than_there_are_is_refused(tmp_path):
    raw = {
        "method": {"name": "grpo", "tasks": 10**6},
        "evaluation": {"before": False},
        "workers": {"count": 1},
    }
    with pytest.raises(RequestError, match=r"tasks = 1000000.*accepted: at most"):
        play(raw, tmp_path / "run")


def test_the_method_is_found_by_name_and_documented():
    assert registry.method_class("grpo") is GRPO
    for field in GRPOSettings.model_fields.values():
        assert field.description
    assert GRPO(GRPOSettings()).plan() == {"updates": 20, "groups": 160, "episodes": 1280}


# ------------------------------------------------------------------------------------------ from episodes to samples


def episode(value, *, truncated=False, finish="stop", kind="command"):
    result = StepResult(Observation(""), value, True)
    turn = Turn(Observation(""), (1, 2), (3,), (-1.0,), "", Action(kind), finish, result, 0.0, 0.0)
    return Trajectory("t", "f", 1, 0, (turn,), value, bool(value), truncated, 1, 0.0)


@pytest.mark.parametrize(
    "cut", [{"truncated": True}, {"finish": "length"}], ids=["turn limit", "token limit"]
)
def test_a_truncated_episode_is_learnt_from_or_only_counted(cut):
    groups = [_Group(0, (episode(1.0), episode(0.0, **cut)))]
    kept, _ = _samples(groups, GRPOSettings(scale_rewards="none"))
    masked, _ = _samples(groups, GRPOSettings(scale_rewards="none", truncated="mask"))
    assert [(s.advantage, s.tokens) for s in kept] == [(0.5, 1), (-0.5, 1)]
    assert [(s.advantage, s.tokens) for s in masked] == [(0.5, 1), (-0.5, 0)]


def test_invalid_actions_cost_what_the_penalty_says():
    groups = [_Group(0, (episode(0.0), episode(0.0, kind="invalid")))]
    samples, equal = _samples(groups, GRPOSettings(scale_rewards="none"))
    assert ([s.advantage for s in samples], equal) == ([0.0, 0.0], (True,))
    samples, equal = _samples(groups, GRPOSettings(scale_rewards="none", invalid_penalty=0.25))
    assert ([s.advantage for s in samples], equal) == ([0.125, -0.125], (False,))


# --------------------------------------------------------------------------------------------------- the learner alone


def learner_of(**settings):
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=11, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.5,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
    return Learner(model, LearnerSettings(**settings), 0, temperature=1.0, longest=8)


def sample(ids, advantage):
    return Sample(
        (TokenSequence(ids, (False, *[True] * (len(ids) - 1)), (0.0, *[-1.0] * (len(ids) - 1))),), advantage
    )


SAMPLES = [sample((1, 2, 3), 1.0), sample((1, 4), -1.0), sample((5, 6, 7, 8), 0.5), sample((5, 9, 9), -0.5)]


def logprob(learner, ids):
    from baselines.grpo_loss import pad, token_logprobs

    with torch.no_grad():
        return float(token_logprobs(learner._model, pad(sample(ids, 0.0).sequences))[0].sum())


def test_learning_raises_what_was_good_and_lowers_what_was_bad():
    learner = learner_of(learning_rate=1e-3)
    good, bad = logprob(learner, (1, 2, 3)), logprob(learner, (1, 4))
    learner.learn(0, SAMPLES[:2])
    assert logprob(learner, (1, 2, 3)) > good
    assert logprob(learner, (1, 4)) < bad


def test_micro_batches_change_memory_and_not_the_step():
    one, many = learner_of(), learner_of(micro_batch_tokens=1)
    assert one.learn(0, SAMPLES)["gradient_norm"] == pytest.approx(
        many.learn(0, SAMPLES)["gradient_norm"], rel=1e-5
    )


def test_without_a_difference_nothing_is_changed():
    learner = learner_of()
    before = {name: w.clone() for name, w in learner.weights().items()}
    assert learner.learn(0, [sample((1, 2), 0.0), sample((1, 3), 0.0)]) == {"steps": 0}
    assert all(torch.equal(before[name], w) for name, w in learner.weights().items())


def test_the_first_step_of_a_warm_up_is_a_share_of_the_rate():
    learner = learner_of(learning_rate=1e-3, warmup=4)
    before = {name: w.clone() for name, w in learner.weights().items()}
    learner.learn(0, SAMPLES)
    moved = max(float((w - before[name]).abs().max()) for name, w in learner.weights().items())
    # AdamW's first step moves an element by the learning rate (or, where its gradient is next to nothing, by less).
    assert moved == pytest.approx(1e-3 / 4, rel=1e-3)


def test_state_from_files_goes_on_bit_for_bit(tmp_path):
    straight, saved, loaded = learner_of(), learner_of(), learner_of()
    for learner in (straight, saved):
        learner.learn(0, SAMPLES)
    saved.save_optimizer(tmp_path / "o.safetensors")
    loaded.set_weights(saved.weights())
    loaded.load_optimizer(tmp_path / "o.safetensors")
    for learner in (straight, loaded):
        learner.learn(1, SAMPLES)
    assert loaded.steps == straight.steps == 2
    assert all(torch.equal(w, straight.weights()[name]) for name, w in loaded.weights().items())


def test_half_precision_and_checkpointing_learn_alike():
    exact = learner_of().learn(0, SAMPLES)["gradient_norm"]
    assert learner_of(gradient_checkpointing=True).learn(0, SAMPLES)["gradient_norm"] == pytest.approx(
        exact, rel=1e-5
    )
    half = learner_of(precision="bfloat16")
    assert half.learn(0, SAMPLES)["gradient_norm"] == pytest.approx(exact, rel=0.05)
    assert all(w.dtype == torch.float32 for w in half.weights().values())
