"""The torch engine against Hugging Face's own generate, on small random models."""

import hashlib

import pytest
import torch

from harness.errors import RequestError
from harness.interfaces import GenerationRequest, Message
from harness.policies import tiny
from harness.policies.chat_tokenizer import ChatTokenizer
from harness.policies.torch_policy import TorchPolicy, uniform

WORDS = ["dragon", "apple", "river", "stone"]
TEXTS = [f"put {a} into {b}.txt\nexit code 0\n{c}" for a in WORDS for b in WORDS for c in WORDS] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny.build_tokenizer(TEXTS, WORDS, ["<command>", "</command>"], 400)
    model = tiny.build_model(
        len(tokenizer), tiny.TinyShape(hidden=64, layers=3, heads=2, feed_forward=96, context=256), seed=3
    )
    with torch.no_grad():
        for (
            parameter
        ) in model.parameters():  # sharper than at initialisation, so that argmax is not a matter of rounding
            if parameter.dim() == 2:
                parameter.mul_(3.0)
    tiny.save(model, tokenizer, path)
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory, folder):
    from transformers import LlamaConfig, LlamaForCausalLM

    path = tmp_path_factory.mktemp("llama")
    tokenizer = ChatTokenizer.load(folder).hf
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, eos_token_id=1, pad_token_id=0, bos_token_id=None,
        initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def prompts(policy, count, longest=40):
    vocabulary = policy.model.config.vocab_size
    generator = torch.Generator().manual_seed(0)
    return [
        tuple(
            torch.randint(
                3, vocabulary, (int(torch.randint(1, longest, (), generator=generator)),), generator=generator
            ).tolist()
        )
        for _ in range(count)
    ]


def request(conversation, prompt, new=24, temperature=0.0, seed=0):
    return GenerationRequest(conversation, tuple(prompt), new, temperature, seed)


def reference(policy, prompt, new=24):
    with torch.no_grad():
        out = policy.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=new,
            do_sample=False,
        )
    return tuple(out[0, len(prompt) :].tolist())


@pytest.mark.parametrize("plain", [False, True], ids=["hand-written Qwen2", "Hugging Face forward"])
def test_greedy_tokens_equal_generates_on_64_ragged_prompts(folder, plain):
    policy = TorchPolicy(folder, plain_forward=plain)
    some = prompts(policy, 64)
    got = policy.generate_now([request(i, prompt) for i, prompt in enumerate(some)])
    assert [g.token_ids for g in got] == [reference(policy, prompt) for prompt in some]
    assert {g.finish for g in got} == {"stop", "length"}


def test_another_architecture_runs_through_its_own_forward(llama):
    policy = TorchPolicy(llama)
    some = prompts(policy, 16)
    got = policy.generate_now([request(i, prompt) for i, prompt in enumerate(some)])
    assert [g.token_ids for g in got] == [reference(policy, prompt) for prompt in some]


@pytest.mark.parametrize("plain", [False, True], ids=["hand-written Qwen2", "Hugging Face forward"])
def test_a_second_turn_on_the_cache_equals_one_from_scratch(folder, plain):
    policy = TorchPolicy(folder, plain_forward=plain)
    some = prompts(policy, 12)
    first = policy.generate_now([request(i, prompt, 10) for i, prompt in enumerate(some)])
    longer = [
        (*prompt, *g.token_ids, 7, 8 + i, 9) for i, (prompt, g) in enumerate(zip(some, first, strict=True))
    ]
    kept = [i for i in range(12) if i % 3 != 1]
    second = policy.generate_now([request(i, longer[i], 10) for i in reversed(kept)])
    assert [g.token_ids for g in second] == [reference(policy, longer[i], 10) for i in reversed(kept)]


def test_a_long_conversation_beside_one_with_a_long_new_observation(folder):
    """Padding of the first runs past every real position, at a length where the rotary tables are made anew."""
    policy = TorchPolicy(folder)
    some = prompts(policy, 2, longest=40)
    long = (*some[0], *(7 + i % 90 for i in range(239 - len(some[0]))))
    for first in (some[0], long):
        policy.generate_now([request(0, first, 1), request(1, some[1], 1)])
    grown = (*some[1], *(9 + i % 80 for i in range(60)))
    got = policy.generate_now([request(0, (*long, 8), 4), request(1, grown, 4)])
    assert [g.token_ids for g in got] == [reference(policy, (*long, 8), 4), reference(policy, grown, 4)]


def test_a_changed_prefix_is_computed_again(folder):
    policy = TorchPolicy(folder)
    policy.generate_now([request(0, (5, 6, 7, 8, 9, 10))])
    changed = (5, 6, 70, 8, 9, 10, 11)
    (got,) = policy.generate_now([request(0, changed)])
    assert got.token_ids == reference(policy, changed)


def test_a_conversation_key_may_be_used_again(folder):
    policy = TorchPolicy(folder)
    policy.generate_now([request(0, (5, 6, 7, 8))])
    policy.forget([0])
    (got,) = policy.generate_now([request(0, (5, 6, 7, 9))])
    assert got.token_ids == reference(policy, (5, 6, 7, 9))


def test_changed_weights_void_the_cache(folder):
    policy = TorchPolicy(folder)
    prompt = (5, 6, 7, 8, 9)
    before = policy.generate_now([request(0, prompt)])[0].token_ids
    with torch.no_grad():
        for tensor in policy.named_parameters().values():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    policy.weights_changed()
    got = policy.generate_now([request(0, prompt)])[0].token_ids
    assert got == reference(policy, prompt)
    assert got != before


def test_what_is_sampled_does_not_depend_on_the_batch(folder):
    policy = TorchPolicy(folder)
    some = prompts(policy, 20)
    together = policy.generate_now([request(i, p, temperature=1.0, seed=100 + i) for i, p in enumerate(some)])
    alone = [
        policy.generate_now([request(i, p, temperature=1.0, seed=100 + i)])[0] for i, p in enumerate(some)
    ]
    assert [g.token_ids for g in together] == [g.token_ids for g in alone]
    other = policy.generate_now([request(i, p, temperature=1.0, seed=900 + i) for i, p in enumerate(some)])
    assert [g.token_ids for g in together] != [g.token_ids for g in other]


def test_sampled_tokens_follow_the_softmax(folder):
    policy = TorchPolicy(folder)
    prompt = (5, 6, 7)
    with torch.no_grad():
        p = torch.softmax(policy.model(torch.tensor([prompt])).logits[0, -1].double() / 2.0, dim=-1)
    count = 3000
    got = policy.generate_now([request(i, prompt, 1, temperature=2.0, seed=i) for i in range(count)])
    tokens = torch.tensor([g.token_ids[0] for g in got])
    top = p.topk(3).indices
    for token in top.tolist():
        expected = float(p[token])
        seen = float((tokens == token).double().mean())
        assert abs(seen - expected) < 4 * (expected * (1 - expected) / count) ** 0.5 + 1e-9


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_log_probabilities_equal_hugging_faces_at_the_sampling_temperature(folder, temperature):
    policy = TorchPolicy(folder)
    prompt = (5, 6, 7, 8)
    (got,) = policy.generate_now([request(0, prompt, 12, temperature, seed=3)])
    full = torch.tensor([[*prompt, *got.token_ids]])
    with torch.no_grad():
        logits = policy.model(full).logits[0, len(prompt) - 1 : -1]
    wanted = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    for i, token in enumerate(got.token_ids):
        assert got.logprobs[i] == pytest.approx(float(wanted[i, token]), abs=1e-5)


def test_the_context_ends_a_reply_and_a_full_one_gives_none(folder):
    policy = TorchPolicy(folder)
    long = tuple([5] * 250)
    short, none = policy.generate_now([request(0, long, 50), request(1, [5] * 256, 50)])
    assert len(short.token_ids) <= 6
    assert none.token_ids == ()
    assert none.finish == "length"


def test_the_random_number_of_a_token_is_splitmix64():
    """Published outputs of SplitMix64 from seed 1234567."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [uniform(1234567, i) for i in range(3)] == [(x >> 11) / 2**53 for x in published]


def test_the_same_seed_builds_the_same_weights(folder):
    one, two = (tiny.build_model(400, tiny.TinyShape(), seed) for seed in (1, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_words_and_markers_are_single_tokens_wherever_they_stand(folder):
    tokenizer = ChatTokenizer.load(folder)
    for text in ("dragon", " dragon", "'dragon'", "dragon.txt"):
        ids = tokenizer.hf.encode(text, add_special_tokens=False)
        assert tokenizer.hf.convert_tokens_to_ids("dragon") in ids
    assert (
        tokenizer.decode(tokenizer.hf.encode("<command>echo é > x</command>", add_special_tokens=False))
        == "<command>echo é > x</command>"
    )


def test_the_next_prompt_equals_the_template_for_a_reply_that_ended(folder):
    tokenizer = ChatTokenizer.load(folder)
    first = [Message("user", "put apple into river.txt")]
    prompt = tokenizer.first_prompt(first)
    reply = (*tokenizer.hf.encode("<command>x</command>", add_special_tokens=False), 1)
    grown = tokenizer.next_prompt(prompt, reply, [Message("user", "exit code 0\nstone")])
    whole = tokenizer.first_prompt(
        [*first, Message("assistant", "<command>x</command>"), Message("user", "exit code 0\nstone")]
    )
    assert tokenizer.hf.decode(grown) == tokenizer.hf.decode(whole)
    assert grown[: len(prompt) + len(reply)] == (*prompt, *reply)
    cut = tokenizer.next_prompt(prompt, reply[:-1], [Message("user", "exit code 0\nstone")])
    assert cut == grown


def test_a_template_that_rewrites_history_is_refused(folder):
    tokenizer = ChatTokenizer.load(folder).hf
    tokenizer.chat_template = (
        "{% for m in messages %}{% if loop.last %}{{ m.content }}{% endif %}{% endfor %}"
    )
    with pytest.raises(RequestError, match="rewrites earlier turns"):
        ChatTokenizer(tokenizer, "some-model")


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(RequestError, match="no-model"):
        TorchPolicy(tmp_path / "no-model")


def test_the_fingerprint_follows_the_weights(folder):
    policy = TorchPolicy(folder)
    before = policy.fingerprint()
    assert len(before) == len(hashlib.sha256().hexdigest())
    next(iter(policy.named_parameters().values()))[0, 0] += 1
    assert policy.fingerprint() != before
