"""Reading task folders: what they say, and how a malformed one is named."""

import json

import pytest

from harness.errors import RequestError
from tasks.terminal.formats.foldertask import PhaseLimits, Verifier, folder_fingerprint
from tasks.terminal.formats.harbor import wrapped_pytest
from tasks.terminal.formats.read import divide, read_folder, read_task
from tests.tasks.terminal.formats.folders import FINAL, STOCK_TEST_SH, TOML, endless, harbor


def test_an_endless_folder(tmp_path):
    task = read_task(endless(tmp_path / "task_1", description="Do it.", truth="the answer"))
    assert (task.task_id, task.layout, task.family, task.difficulty) == ("task_1", "endless", "endless", 0)
    assert (task.instruction, task.truth) == ("Do it.", "the answer")
    assert list(task.tests) == ["/tests/test_final_state.py"]
    assert list(task.initial_tests) == ["/tests/test_initial_state.py"]
    assert task.verifier == Verifier("pytest", ("/tests/test_final_state.py",))
    assert task.limits == PhaseLimits(agent_s=600.0)
    assert task.solution is None


def test_a_harbor_folder(tmp_path):
    toml = 'schema_version = "1.1"\n[task]\nname = "o/n"\n[metadata]\ndifficulty = "hard"\ncategory = "git"\ntags = ["x"]\n'
    toml += "[verifier]\ntimeout_sec = 30\nenv = { A = 'b' }\n[agent]\ntimeout_sec = 40.5\n[environment]\nbuild_timeout_sec = 50\n"
    toml += 'memory = "2G"\nstorage = "500M"\nallow_internet = true\n'
    task = read_task(harbor(tmp_path / "h", toml=toml))
    assert (task.task_id, task.layout, task.family, task.difficulty) == ("h", "harbor", "git", 3)
    assert task.instruction == "Write in.txt in capitals to out.txt."
    assert task.limits == PhaseLimits(50.0, 40.5, 30.0, 2048, 500)
    assert task.verifier == Verifier("pytest", ("/tests/test_final_state.py",), (("A", "b"),))
    assert task.solution.commands == ("bash /solution/solve.sh",)
    assert list(task.solution.files) == ["/solution/solve.sh"]
    assert task.initial_tests is None


@pytest.mark.parametrize("place", ["environment", "tests"])
def test_the_initial_test_of_converted_tasks_is_found_and_is_no_final_test(tmp_path, place):
    task = read_task(harbor(tmp_path / "h", files={f"{place}/test_initial_state.py": "def test_a(): pass\n"}))
    assert task.initial_tests["/tests/test_initial_state.py"].content == b"def test_a(): pass\n"
    assert "/tests/test_initial_state.py" not in task.tests


def test_without_a_script_the_test_files_are_run(tmp_path):
    task = read_task(
        harbor(tmp_path / "h", test_sh=None, files={"tests/test_b.py": FINAL, "tests/data/x.txt": "x"})
    )
    assert task.verifier == Verifier("pytest", ("/tests/test_b.py", "/tests/test_final_state.py"))
    assert task.tests["/tests/data/x.txt"].content == b"x"


def test_a_recorded_solution_is_the_first_that_succeeded(tmp_path):
    def reply(role, text):
        return {"role": role, "content": text}

    failed = {
        "success": False,
        "messages": [reply("assistant", "<command>wrong</command>")],
        "output": "",
        "reward": 0,
    }
    solved = {
        "success": True,
        "reward": 1,
        "output": "",
        "messages": [
            reply("system", "<command>not mine</command>"),
            reply("assistant", "<think>so</think><command>one</command>"),
            reply("user", "ok"),
            reply("assistant", "<command>x</command><command>two</command>"),
            reply("assistant", "<action>done</action>"),
        ],
    }
    summary = {"num_runs": 2, "num_success": 1, "pass_at_k": {"1": 0.5}, "results": [failed, solved]}
    task = read_task(endless(tmp_path / "t", files={"solutions/m_summary.json": json.dumps(summary)}))
    assert task.solution.commands == ("one", "two")


def refusal(folder):
    with pytest.raises(RequestError) as caught:
        read_task(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"task.json": None}, ["/t:", "task.json is missing"]),
        ({"container.def": None}, ["/t:", "container.def is missing"]),
        ({"test_final_state.py": None}, ["test_final_state.py is missing"]),
        ({"test_initial_state.py": None}, ["test_initial_state.py is missing"]),
        ({"task.json": "{"}, ["/t/task.json", "not valid JSON", "line 1"]),
        ({"task.json": "[]"}, ["/t/task.json", "[]", "dict"]),
        ({"task.json": "{}"}, ["/t/task.json", "description is missing"]),
        ({"task.json": '{"description": 3}'}, ["/t/task.json", "description = 3", "string"]),
        ({"task.json": '{"description": ""}'}, ["/t/task.json", "description = ''"]),
        ({"task.json": '{"description": "a", "truth": []}'}, ["/t/task.json", "truth = []"]),
        ({"container.def": b"\xff\xfe"}, ["/t/container.def", "byte 0", "UTF-8"]),
        ({"solutions/a_summary.json": "[1]"}, ["/t/solutions/a_summary.json", "list", "results"]),
        ({"solutions/a_summary.json": '{"results": [{"success": "maybe"}]}'}, ["a_summary.json", "results.0.success = 'maybe'"]),
    ],
)  # fmt: skip
def test_a_malformed_endless_folder_is_named_by_file_field_and_value(tmp_path, files, parts):
    message = refusal(endless(tmp_path / "t", files=files))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"task.toml": None}, ["/h:", "task.toml is missing"]),
        ({"instruction.md": None}, ["instruction.md is missing"]),
        ({"instruction.md": " \n"}, ["/h/instruction.md", "is empty"]),
        ({"environment/Dockerfile": None}, ["environment/Dockerfile is missing"]),
        ({"task.toml": "a = = 1"}, ["/h/task.toml", "not valid TOML", "line 1"]),
        ({"task.toml": "[agent]\ntimeout_sec = 'long'"}, ["/h/task.toml", "agent.timeout_sec = 'long'"]),
        ({"task.toml": "[verifier]\ntimeout_sec = -1"}, ["verifier.timeout_sec = -1", "greater than 0"]),
        ({"task.toml": "[environment]\nmemory_mb = 1.5"}, ["environment.memory_mb = 1.5"]),
        ({"task.toml": "[environment]\nmemory = 'lots'"}, ["environment.memory = 'lots'", "2G"]),
        ({"task.toml": "[metadata]\ndifficulty = 3"}, ["metadata.difficulty = 3"]),
        ({"task.toml": "verifier = 3"}, ["verifier = 3"]),
        ({"tests/test.sh": None, "tests/test_final_state.py": None, "tests/x": "x"}, ["/h/tests", "neither test.sh nor"]),
    ],
)  # fmt: skip
def test_a_malformed_harbor_folder_is_named_by_file_field_and_value(tmp_path, files, parts):
    folder = harbor(tmp_path / "h")
    for name, content in files.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content)
    message = refusal(folder)
    for part in parts:
        assert part in message


def test_links_that_lead_out_of_a_folder_are_refused(tmp_path):
    (tmp_path / "outside.md").write_text("x")
    folder = harbor(tmp_path / "h")
    (folder / "instruction.md").unlink()
    (folder / "instruction.md").symlink_to("../outside.md")
    assert "leads out" in refusal(folder)
    folder = harbor(tmp_path / "h2")
    (folder / "tests" / "more").symlink_to("../../outside.md")
    assert "leads out" in refusal(folder)


def test_a_folder_of_folders_is_divided_by_id_alone(tmp_path):
    for number in range(10):
        endless(tmp_path / f"task_{number}")
    (tmp_path / "README").write_text("x")
    (tmp_path / "scripts").mkdir()
    splits = read_folder(tmp_path)
    assert [len(splits["train"]), len(splits["heldout"])] == [8, 2]
    # By sha256sum: 03eb571b (task_2), 33d4b570 (task_8), then the others.
    assert [task.task_id for task in splits["heldout"]] == sorted(HELD)
    assert [task.task_id for task in divide(splits["heldout"] + splits["train"])["heldout"]] == sorted(HELD)


HELD = ["task_2", "task_8"]


def test_folders_called_train_and_heldout_are_the_splits(tmp_path):
    endless(tmp_path / "train" / "a")
    harbor(tmp_path / "train" / "b")
    endless(tmp_path / "heldout" / "c")
    splits = read_folder(tmp_path)
    assert {name: [task.task_id for task in tasks] for name, tasks in splits.items()} == {
        "train": ["a", "b"],
        "heldout": ["c"],
    }


def test_a_single_task_folder_is_held_out(tmp_path):
    splits = read_folder(endless(tmp_path / "t"))
    assert [len(splits["train"]), len(splits["heldout"])] == [0, 1]


@pytest.mark.parametrize("make", [lambda p: p.mkdir(), lambda p: None])
def test_a_folder_without_tasks_is_refused(tmp_path, make):
    make(tmp_path / "none")
    with pytest.raises(RequestError, match=r"accepted: (a folder|folders) of"):
        read_folder(tmp_path / "none")


def test_two_tasks_of_one_name_are_refused(tmp_path):
    endless(tmp_path / "train" / "a")
    endless(tmp_path / "heldout" / "a")
    with pytest.raises(RequestError, match="two tasks are called a"):
        read_folder(tmp_path)


def test_the_fingerprint_covers_every_file_and_its_mode(tmp_path):
    folder = endless(tmp_path / "t")
    seen = {folder_fingerprint(folder)}
    (folder / "extra").write_text("x")
    seen.add(folder_fingerprint(folder))
    (folder / "extra").write_text("y")
    seen.add(folder_fingerprint(folder))
    (folder / "extra").chmod(0o755)
    seen.add(folder_fingerprint(folder))
    (folder / "extra").rename(folder / "other")
    seen.add(folder_fingerprint(folder))
    assert len(seen) == 5
    (folder / "tasks-report.json").write_text("{}")
    assert folder_fingerprint(folder) in seen


@pytest.mark.parametrize(
    ("script", "targets"),
    [
        (STOCK_TEST_SH, ["/tests/test_final_state.py"]),
        ("python3 -m pytest -q /tests/a.py\nif [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", ["/tests/a.py"]),
        ("if python3 -m pytest -q /tests/a.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", ["/tests/a.py"]),
        ("mkdir -p /logs/verifier\nuvx -p 3.13 -w pytest==8.4.1 pytest --ctrf /logs/verifier/ctrf.json /tests/a.py -rA\nstatus=$?\nif [ \"$status\" -ne 0 ]; then\n echo 0 > /logs/verifier/reward.txt\nelse\n echo 1 > /logs/verifier/reward.txt\nfi\nexit 0", ["/tests/a.py"]),
        ("pytest /tests/a.py /tests/b.py && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt", ["/tests/a.py", "/tests/b.py"]),
        ("pip install pytest requests\npytest /tests/a.py\nif [ $? -eq 0 ]; then\necho \"1\" > /logs/verifier/reward.txt\nelse\necho \"0\" > \"/logs/verifier/reward.txt\"\nfi", ["/tests/a.py"]),
        # more than a wrapper: run as it is
        ("python3 /tests/prepare.py\npytest /tests/a.py\nif [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", []),
        ("pytest /tests/a.py\npytest /tests/b.py\nif [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", []),
        ("pytest /tests/a.py -k some\nif [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", []),
        ("pytest /tests/a.py\nif [ $? -eq 0 ]; then echo 0 > /logs/verifier/reward.txt; else echo 1 > /logs/verifier/reward.txt; fi", []),
        ("pytest /tests/a.py\necho 1 > /logs/verifier/reward.txt", []),
        ("if ! pytest /tests/a.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi", []),
        ("exit 0", []),
    ],
)  # fmt: skip
def test_a_script_that_only_wraps_pytest_is_told_from_others(script, targets):
    assert list(wrapped_pytest("#!/bin/bash\n" + script + "\n")) == targets


def test_the_toml_of_the_fixture_is_read(tmp_path):
    task = read_task(harbor(tmp_path / "h", toml=TOML))
    assert task.limits == PhaseLimits(600.0, 300.0, 300.0, 512, 1024)
    assert (task.family, task.difficulty) == ("text", 2)
