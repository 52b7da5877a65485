import json
import os
import subprocess
import sys
import tomllib

import pytest

from harness.errors import RequestError
from tasks.terminal.formats.export import export_task
from tasks.terminal.generator.manifest import TaskList
from tasks.terminal.task import verdict
from tests.tasks.terminal.playing import final_trees


def materialise(tree, root):
    """Write a tree below ``root``, hard links as such."""
    linked = {}
    for path, entry in sorted(tree.items()):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "dir":
            target.mkdir(exist_ok=True)
        elif entry.kind == "link":
            target.symlink_to(entry.target)
        elif entry.kind == "file" and entry.links > 1 and entry.content in linked:
            os.link(linked[entry.content], target)
        elif entry.kind == "file":
            target.write_bytes(entry.content)
            target.chmod(entry.mode)
            if entry.links > 1:
                linked[entry.content] = target


def exported_verdict(module, root):
    module["ROOT"] = str(root)
    return all(module["holds"](check) for check in module["CHECKS"])


def test_the_exported_pytest_gives_the_verdict_of_the_declarative_checks(tmp_path):
    tasks = TaskList("train")[:123]
    episodes = []
    for task in tasks:
        episodes += [(task, task.experts[0]), (task, ()), (task, task.flawed[0]), (task, task.flawed[-1])]
    finals = final_trees(episodes)
    disagree, passed = [], 0
    for number, ((task, commands), final) in enumerate(zip(episodes, finals, strict=True)):
        folder = tmp_path / task.task_id
        if not folder.exists():
            export_task(task, folder, "endless")
        module = {}
        exec(compile((folder / "test_final_state.py").read_text(), "test", "exec"), module)
        root = tmp_path / f"root{number}"
        materialise(final, root)
        wanted = verdict(task, final)
        passed += wanted
        if exported_verdict(module, root) != wanted:
            disagree.append((task.task_id, commands, wanted))
    assert disagree == []
    assert passed >= 123


@pytest.mark.parametrize("solved", [True, False])
def test_the_exported_file_runs_under_pytest(tmp_path, solved):
    task = TaskList("train")[0]
    export_task(task, tmp_path / "t", "harbor")
    (final,) = final_trees([(task, task.experts[0] if solved else ())])
    materialise(final, tmp_path / "root")
    (tmp_path / "root").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "t/tests/test_final_state.py"),
         "--rootdir", str(tmp_path / "t/tests")],
        env={"TASK_ROOT": str(tmp_path / "root"), "PATH": os.environ["PATH"]}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == (0 if solved else 1), done.stdout


def test_the_two_layouts_have_their_files_and_the_truth_stays_out_of_what_the_agent_reads(tmp_path):
    task = TaskList("train")[41]
    export_task(task, tmp_path / "e", "endless")
    assert sorted(p.name for p in (tmp_path / "e").iterdir()) == [
        "container.def",
        "task.json",
        "test_final_state.py",
        "test_initial_state.py",
    ]
    assert set(json.loads((tmp_path / "e/task.json").read_text())) == {"description", "truth", "name"}
    export_task(task, tmp_path / "h", "harbor")
    assert tomllib.loads((tmp_path / "h/task.toml").read_text())["environment"]["cpus"] == 1
    assert (tmp_path / "h/instruction.md").read_text() == task.instruction + "\n"
    assert os.access(tmp_path / "h/tests/test.sh", os.X_OK)
    for name in ("h/instruction.md", "h/environment/Dockerfile", "e/container.def"):
        assert not any(command in (tmp_path / name).read_text() for command in task.experts[0])


def test_an_existing_folder_is_refused_and_kept(tmp_path):
    (tmp_path / "e").mkdir()
    with pytest.raises(RequestError, match="exists"):
        export_task(TaskList("train")[0], tmp_path / "e", "endless")


def test_the_build_lines_make_the_initial_files(tmp_path):
    from tasks.terminal.formats.export import _build
    from tasks.terminal.task import HOME

    for task in TaskList("train")[:82]:
        script = "\n".join(_build(task.files)).replace(HOME, str(tmp_path / task.task_id))
        subprocess.run(["bash", "-e", "-c", script], check=True, capture_output=True)
        for path, entry in task.files.items():
            made = tmp_path / task.task_id / path.removeprefix(HOME).lstrip("/")
            if entry.kind == "file":
                assert made.read_bytes() == entry.content
                assert made.stat().st_mode & 0o777 == entry.mode
            elif entry.kind == "link":
                assert os.readlink(made) == entry.target
