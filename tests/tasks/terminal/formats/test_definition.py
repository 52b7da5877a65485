"""What an Apptainer definition means: pure, without a sandbox."""

import pytest

from tasks.terminal.formats.context import Context
from tasks.terminal.formats.definition import parse_definition
from tasks.terminal.formats.plan import BuildFileError

HEADER = "Bootstrap: localimage\nFrom: ./ubuntu_22.04.sif\n"


def parsed(tmp_path, text):
    return parse_definition(text, Context(tmp_path).copy)


def test_post_is_one_script_that_stops_at_the_first_failure(tmp_path):
    plan = parsed(tmp_path, HEADER + "\n%post\n    a\n\n    b <<X\n %x\nX\n%runscript\n  c\n")
    (step,) = plan.steps
    assert step.argv == ("/bin/sh", "-ev")
    assert step.script == "    a\n\n    b <<X\n %x\nX\n"
    assert (step.line, step.script_line) == (4, 5)
    assert step.environment["HOME"] == "/root"


def test_the_environment_is_run_by_the_agents_shell_in_its_home(tmp_path):
    plan = parsed(tmp_path, HEADER + "%environment\n    export A=1\n%post\n    a\n")
    assert plan.entry == "    export A=1\n"
    assert (plan.workdir, plan.environment) == ("/home/user", {"HOME": "/home/user"})


def test_files_are_copied_before_post(tmp_path):
    (tmp_path / "data.csv").write_text("1")
    plan = parsed(
        tmp_path,
        HEADER + "%post\n  a\n%files\n  data.csv /home/user/\n  # note\n  data.csv\n%labels\n  x y\n",
    )
    assert [sorted(step.files) for step in plan.steps] == [["/home/user/data.csv"], ["/data.csv"], []]


def test_the_shell_of_post(tmp_path):
    assert parsed(tmp_path, HEADER + "%post -c /bin/bash\n  a\n").steps[0].argv == ("/bin/bash", "-ev")


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("From: ubuntu\n%post\n", 1, ["no Bootstrap"]),
        ("Bootstrap: docker\n%post\n", 1, ["no From"]),
        ("Bootstrap: yum\nFrom: x\n%post\n", 1, ["Bootstrap: yum"]),
        ("Bootstrap: docker\nFrom: alpine:3\n%post\n", 2, ["alpine:3", "network"]),
        ("Bootstrap: docker\nFrom: ubuntu\nInclude: x\n%post\n", 3, ["Include: x"]),
        (HEADER + "%setup\n  touch x\n", 3, ["%setup"]),
        (HEADER + "%appinstall x\n", 3, ["%appinstall"]),
        (HEADER + "%files from build\n  a b\n", 3, ["stages"]),
        (HEADER + "%files\n  gone /x\n", 4, ["gone"]),
        (HEADER + "%files\n  task.json /x\n", 4, ["tests or truth"]),
        (HEADER + "%files\n  test_final_state.py /x\n", 4, ["tests or truth"]),
        (HEADER + "%post -x\n  a\n", 3, ["%post -x"]),
    ],
)
def test_what_is_not_known_is_named_with_its_line(tmp_path, text, line, parts):
    for name in ("task.json", "test_final_state.py"):
        (tmp_path / name).write_text("x")
    with pytest.raises(BuildFileError) as caught:
        parsed(tmp_path, text)
    assert caught.value.line == line
    for part in parts:
        assert part in caught.value.reason
