"""Task sets as rows of a dataset, beside the folders of the tasks."""

import json

import pytest

from harness.errors import InfrastructureError, RequestError
from tasks.terminal.formats import rows, source
from tasks.terminal.formats.read import read_task
from tests.tasks.terminal.formats.folders import endless, harbor


def parquet(path, records):
    from datasets import Dataset

    Dataset.from_list(records).to_parquet(str(path))
    return path


def json_rows(path, records):
    text = json.dumps(records) if path.suffix == ".json" else "".join(json.dumps(r) + "\n" for r in records)
    path.write_text(text)
    return path


WRITERS = {"rows.parquet": parquet, "rows.jsonl": json_rows, "rows.json": json_rows}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_name_their_folders_and_give_the_instruction(tmp_path, name):
    endless(tmp_path / "a")
    harbor(tmp_path / "tasks" / "b")
    records = [
        {"task_id": "a", "instruction": "first", "split": "train"},
        {"task_id": "b", "instruction": "second", "split": "test"},
    ]
    splits = source.read_tasks(str(WRITERS[name](tmp_path / name, records)))
    assert {
        split: [(t.task_id, t.layout, t.instruction) for t in tasks] for split, tasks in splits.items()
    } == {
        "train": [("a", "endless", "first")],
        "heldout": [("b", "harbor", "second")],
    }
    assert splits["train"][0].fingerprint != read_task(tmp_path / "a").fingerprint


def test_other_names_of_the_columns_and_no_split(tmp_path):
    for number in range(5):
        endless(tmp_path / f"t{number}")
    records = [{"id": f"t{n}", "description": f"do {n}", "more": [1]} for n in range(5)]
    splits = rows.read_rows(json_rows(tmp_path / "r.jsonl", records))
    assert [len(splits["train"]), len(splits["heldout"])] == [4, 1]


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([{"task_id": "a", "instruction": "x"}, {"task_id": "gone", "instruction": "x"}], ["row 2", "no task folder gone"]),
        ([{"task_id": "a"}], ["row 1", "instruction, description, prompt"]),
        ([{"instruction": "x"}], ["row 1", "task_id, id, name"]),
        ([{"task_id": "a", "instruction": 3}], ["row 1", "instruction = 3"]),
        ([{"task_id": "a", "instruction": " "}], ["row 1", "instruction = ' '"]),
        ([{"task_id": "../a", "instruction": "x"}], ["row 1", "'../a'"]),
        ([{"task_id": "a", "instruction": "x", "split": "dev"}], ["row 1", "split = 'dev'", "heldout"]),
        ([{"task_id": "a", "instruction": "x"}, {"task_id": "a", "instruction": "y"}], ["two rows are called a"]),
    ],
)  # fmt: skip
def test_a_malformed_row_is_named(tmp_path, records, parts):
    endless(tmp_path / "a")
    with pytest.raises(RequestError) as caught:
        rows.read_rows(json_rows(tmp_path / "r.jsonl", records))
    for part in ["r.jsonl", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"), [("r.parquet", b"no parquet"), ("r.jsonl", b"{"), ("r.json", b"\xff")]
)
def test_a_file_that_is_no_rows_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=f"{name}: cannot be read as rows"):
        source.read_tasks(str(tmp_path / name))


def test_a_dataset_of_the_hub_has_its_folders_beside_its_rows(tmp_path, monkeypatch):
    import huggingface_hub

    endless(tmp_path / "tasks" / "a")
    endless(tmp_path / "tasks" / "b")
    (tmp_path / "data").mkdir()
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", [{"task_id": "a", "instruction": "x"}])
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [{"task_id": "b", "instruction": "y"}])
    asked = []

    def snapshot(name, repo_type):
        asked.append((name, repo_type))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    splits = source.read_tasks("someone/terminal-tasks")
    assert asked == [("someone/terminal-tasks", "dataset")]
    assert {s: [t.task_id for t in tasks] for s, tasks in splits.items()} == {
        "train": ["a"],
        "heldout": ["b"],
    }


def test_a_hub_that_cannot_be_reached_is_no_fault_of_the_request(monkeypatch):
    import huggingface_hub

    def refuse(name, repo_type):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(InfrastructureError, match="someone/tasks: the hub cannot be reached: no route"):
        source.read_tasks("someone/tasks")


@pytest.mark.parametrize("name", ["nowhere", "./no/where", "rows.csv"])
def test_what_is_no_source_is_refused(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="accepted: a folder of task folders"):
        source.read_tasks(name)
