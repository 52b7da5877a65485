"""The experiment file: defaults, overriding, refusals that name file, field and value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config import experiment, merge, read_toml
from harness.errors import RequestError


def refusal(raw: dict[str, object]) -> str:
    with pytest.raises(RequestError) as caught:
        experiment(raw, "e.toml")
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_an_empty_file_is_the_main_job() -> None:
    resolved = experiment({}, "e.toml")
    assert (resolved.suite_name, resolved.method_name, resolved.policy.model) == (
        "terminal",
        "async-es",
        "embedded",
    )


def test_a_resolved_experiment_reads_back_as_itself(tmp_path):
    resolved = experiment(
        {"seed": 7, "method": {"name": "async-es", "delay": 4}, "suite": {"sandbox": "bubblewrap"}}, "e.toml"
    )
    path = tmp_path / "config.toml"
    path.write_text(resolved.to_toml())
    again = experiment(read_toml(path), str(path))
    assert again == resolved
    assert again.sha256() == resolved.sha256()


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        ({"seeds": 1}, ["e.toml", "seeds", "not a setting"]),
        ({"seed": -1}, ["e.toml", "seed = -1", "greater than or equal to 0"]),
        ({"method": {"name": "nope"}}, ["e.toml", "method.name", "nope", "async-es", "sync-es"]),
        ({"suite": {"name": "nope"}}, ["e.toml", "suite.name", "nope", "terminal"]),
        ({"suite": "terminal"}, ["e.toml", "suite = 'terminal'", "a table with a name"]),
        ({"method": {"sigma": 0}}, ["e.toml", "method.sigma = 0", "greater than 0"]),
        ({"method": {"population": 7}}, ["e.toml", "population = 7", "even population"]),
        ({"method": {"delay": 4, "max_staleness": 1}}, ["delay = 4", "max_staleness = 1", "one of them"]),
        ({"method": {"delay_fraction": 0.2}}, ["delay_fraction = 0.2", "together with delay"]),
        ({"method": {"name": "sync-es", "delay": 4}}, ["e.toml", "method.delay", "not a setting"]),
        ({"suite": {"sandbox": "chroot"}}, ["suite.sandbox = 'chroot'", "bubblewrap", "docker"]),
        ({"evaluation": {"limit": 0}}, ["evaluation.limit = 0", "greater than or equal to 1"]),
        ({"workers": {"count": "two"}}, ["workers.count = 'two'", "valid integer"]),
    ],
)
def test_a_bad_value_is_refused_with_file_field_and_value(raw: dict[str, object], parts: list[str]) -> None:
    message = refusal(raw)
    for part in parts:
        assert part in message


def test_broken_toml_names_file_and_line(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("seed = 1\nmethod = = 2\n")
    with pytest.raises(RequestError, match=r"broken\.toml: not valid TOML.*line"):
        read_toml(path)


def test_a_missing_file_and_one_that_is_not_text(tmp_path):
    with pytest.raises(RequestError, match="there is no such file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RequestError, match="cannot be read"):
        read_toml(tmp_path / "binary.toml")


def test_the_hash_is_of_what_can_change_a_result() -> None:
    base = experiment({}, "e").sha256()
    assert (
        experiment({"name": "x", "workers": {"count": 7}, "record": {"trajectories": "none"}}, "e").sha256()
        == base
    )
    assert experiment({"seed": 1}, "e").sha256() != base
    assert experiment({"method": {"sigma": 0.02}}, "e").sha256() != base


tables = st.recursive(
    st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)


@given(
    base=st.dictionaries(st.sampled_from("abc"), tables), over=st.dictionaries(st.sampled_from("abc"), tables)
)
def test_merging_keeps_every_key_and_lets_the_second_win(base: dict, over: dict) -> None:
    merged = merge(base, over)
    assert set(merged) == set(base) | set(over)
    assert merge(merged, over) == merged
    for key, value in over.items():
        if not (isinstance(value, dict) and isinstance(base.get(key), dict)):
            assert merged[key] == value
