"""Every experiment file of the repository loads, and survives being resolved and read again."""

from pathlib import Path

import pytest

from harness.config import experiment, read_toml

EXPERIMENTS = sorted(Path("paper/experiments").glob("*.toml"))


def test_there_are_experiments():
    assert EXPERIMENTS


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_loads_and_is_called_as_its_file(path, tmp_path):
    resolved = experiment(read_toml(path), str(path))
    assert resolved.name == path.stem
    again = tmp_path / "resolved.toml"
    again.write_text(resolved.to_toml())
    assert experiment(read_toml(again), str(again)) == resolved
