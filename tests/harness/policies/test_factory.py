"""Which weights a run starts from, and what is said where there are none."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.config import PolicyTable
from harness.errors import RequestError
from harness.policies.factory import model_source


def test_a_suite_without_an_embedded_policy_says_how_to_make_it(tmp_path):
    suite = SimpleNamespace(name="shop", policy_dir=lambda: tmp_path / "policy")
    with pytest.raises(
        RequestError, match=r"suite 'shop' has none in .*; accepted: .* bench warm-start --suite shop"
    ):
        model_source(PolicyTable(), suite)


def test_a_hub_name_is_passed_on_and_a_bare_word_is_refused():
    suite = SimpleNamespace(name="shop", policy_dir=Path)
    assert model_source(PolicyTable(model="Qwen/Qwen2.5-7B-Instruct"), suite) == "Qwen/Qwen2.5-7B-Instruct"
    with pytest.raises(RequestError, match=r"policy\.model = 'qwen': there is no such folder"):
        model_source(PolicyTable(model="qwen"), suite)


def test_an_unfinished_run_is_no_model(tmp_path):
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(RequestError, match=r"no final\.safetensors yet"):
        model_source(PolicyTable(model=str(tmp_path)), SimpleNamespace(name="shop"))
