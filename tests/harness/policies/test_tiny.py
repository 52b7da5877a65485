"""The embedded policy's tokenizer: words and markers whole, and the same tokens after a round trip through a folder."""

import pytest

from harness.policies import tiny
from harness.policies.chat_tokenizer import ChatTokenizer

WORDS = ["dragon", "apple", "river"]
MARKERS = ["<command>", "</command>"]
TEXTS = [f"change the value of {a} in {b}.conf to 16\nexit code 0" for a in WORDS for b in WORDS] * 20
SAMPLES = [
    "change the value of dragon in apple.conf to 16",
    "<command>echo dragon='river' >> /tmp/apple.txt</command>",
    "exit code 2\ncat: dragon.txt: No such file or directory — né",
]


@pytest.fixture(scope="module")
def tokenizer():
    return ChatTokenizer(tiny.build_tokenizer(TEXTS, WORDS, MARKERS, 400), "built")


@pytest.fixture(scope="module")
def loaded(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "policy"
    model = tiny.build_model(len(tokenizer.hf), tiny.TinyShape(hidden=64, layers=1, heads=2), seed=0)
    tiny.save(model, tokenizer.hf, folder)
    return ChatTokenizer.load(folder)


@pytest.mark.parametrize("text", SAMPLES)
def test_a_saved_tokenizer_splits_as_the_one_that_was_built(tokenizer, loaded, text):
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == text


def test_a_word_is_one_token_and_the_same_one_wherever_it_stands(loaded):
    (alone,) = loaded.encode("dragon")
    for text in ("a dragon", "'dragon'", "dragon.txt", "s/dragon/river/"):
        assert list(loaded.encode(text)).count(alone) == 1


def test_frequent_phrases_are_single_tokens_across_spaces(loaded):
    assert len(loaded.encode("exit code 0")) < len(["exit", "code", "0"])


def test_markers_and_headers_are_single_tokens(loaded):
    for text in (*MARKERS, *tiny.HEADERS, tiny.END):
        assert len(loaded.encode(text)) == 1
