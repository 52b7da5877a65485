"""What a Dockerfile means: pure, without a sandbox. Expected values are Docker's documented behaviour."""

import pytest

from tasks.terminal.formats.context import Context
from tasks.terminal.formats.dockerfile import parse_dockerfile
from tasks.terminal.formats.plan import BASE_PATH, BuildFileError
from tasks.terminal.formats.words import expand, split_words


def parsed(tmp_path, text):
    return parse_dockerfile(text, Context(tmp_path))


def scripts(tmp_path, text):
    return [step.script for step in parsed(tmp_path, "FROM debian\n" + text).steps]


def refusal(tmp_path, text):
    with pytest.raises(BuildFileError) as caught:
        parsed(tmp_path, text)
    return caught.value.line, caught.value.reason


def test_lines_are_joined_and_comments_within_them_left_out(tmp_path):
    assert scripts(tmp_path, "RUN a && \\\n# why\n\n    b && \\\n    c\n") == ["a &&     b &&     c\n"]


def test_an_escape_directive_changes_the_escape(tmp_path):
    plan = parsed(tmp_path, "# escape=`\nFROM debian\nRUN a `\n  b\\\nRUN c\n")
    assert [step.script for step in plan.steps] == ["a   b\\\n", "c\n"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("RUN <<EOF\necho a\necho b\nEOF\n", "echo a\necho b\n"),
        ("RUN <<-'EOF'\n\techo a\n\t\techo $b\n\tEOF\n", "echo a\necho $b\n"),
        (
            "RUN cat > f << 'EOF'\nRUN not an instruction\nEOF\n",
            "cat > f << 'EOF'\nRUN not an instruction\nEOF\n",
        ),
        ("RUN cat <<A > a && cat <<B > b\n1\nA\n2\nB\n", "cat <<A > a && cat <<B > b\n1\nA\n2\nB\n"),
        ("RUN echo $((1<<2)) <<< word\n", "echo $((1<<2)) <<< word\n"),
        ("RUN echo 'a <<EOF'\n", "echo 'a <<EOF'\n"),
    ],
)
def test_here_documents_of_run(tmp_path, text, wanted):
    assert scripts(tmp_path, text) == [wanted]


def test_a_here_document_with_a_shebang_runs_under_it(tmp_path):
    (step,) = parsed(tmp_path, "FROM debian\nRUN <<EOF\n#!/usr/bin/env python3\nprint(1)\nEOF\n").steps
    assert step.argv == ("/usr/bin/env", "python3")
    assert step.script == "#!/usr/bin/env python3\nprint(1)\n"


def test_what_follows_a_here_document_keeps_its_line(tmp_path):
    assert refusal(tmp_path, "FROM debian\nRUN <<EOF\na\nEOF\n\nONBUILD RUN b\n")[0] == 6


def test_the_exec_form_and_shell(tmp_path):
    text = 'FROM debian\nRUN ["ls", "-l", "a b"]\nSHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN a\n'
    steps = parsed(tmp_path, text).steps
    assert [(step.argv, step.script) for step in steps] == [
        (("ls", "-l", "a b"), None),
        (("/bin/bash", "-o", "pipefail"), "a\n"),
    ]


def test_environment_accumulates_and_expands(tmp_path):
    text = (
        "FROM debian\nENV A=1 B=\"two words\" C='$A' D=e\\ f\nENV A=2 G=$A\nENV OLD the $A way\n"
        "ENV PATH=/opt/bin:$PATH\nENV H=${NONE:-x$A} I=${A:+set} J=\\$A\nRUN a\n"
    )
    plan = parsed(tmp_path, text)
    wanted = {
        "HOME": "/root", "A": "2", "B": "two words", "C": "$A", "D": "e f", "G": "1", "OLD": "the 2 way",
        "PATH": f"/opt/bin:{BASE_PATH}", "H": "x2", "I": "set", "J": "$A",
    }  # fmt: skip
    assert plan.environment == wanted
    assert wanted.items() <= dict(plan.steps[0].environment).items()


def test_arguments_reach_run_but_not_the_machine(tmp_path):
    text = "ARG IMAGE=debian\nARG WHO=world\nFROM $IMAGE:bookworm\nARG WHO\nARG N=3\nENV M=$N\nRUN a\n"
    plan = parsed(tmp_path, text)
    assert plan.base == "debian:bookworm"
    assert plan.environment == {"HOME": "/root", "M": "3"}
    assert plan.steps[0].environment["WHO"] == "world"


def test_workdir_is_made_and_relative_to_the_one_before(tmp_path):
    plan = parsed(tmp_path, "FROM debian\nWORKDIR /a\nWORKDIR b/../c\nRUN x\n")
    assert plan.workdir == "/a/c"
    assert [step.argv for step in plan.steps[:2]] == [
        ("/bin/mkdir", "-p", "--", "/a"),
        ("/bin/mkdir", "-p", "--", "/a/c"),
    ]
    assert plan.steps[2].workdir == "/a/c"


@pytest.mark.parametrize(
    ("user", "home"), [("user", "/home/user"), ("root", "/root"), ("0:0", "/root"), ("1000", "/home/user")]
)
def test_user_sets_the_home(tmp_path, user, home):
    assert parsed(tmp_path, f"FROM debian\nUSER {user}\n").environment["HOME"] == home


def test_instructions_without_effect_on_files_are_read_over(tmp_path):
    text = 'FROM debian\nLABEL a=b\nEXPOSE 80\nCMD ["x"]\nMAINTAINER me\nHEALTHCHECK NONE\nSTOPSIGNAL 9\nENTRYPOINT ["/bin/bash"]\n'
    assert parsed(tmp_path, text).steps == ()


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("FROM debian\n\nVOLUME /data\n", 3, ["VOLUME", "is not known"]),
        ("FROM debian\nRUM a\n", 2, ["RUM", "accepted"]),
        ("FROM node:20\n", 1, ["node:20", "network"]),
        ("FROM python:3.12-alpine\n", 1, ["alpine", "network"]),
        ("FROM debian AS a\nFROM debian\n", 2, ["second FROM"]),
        ("RUN a\n", 1, ["before FROM"]),
        ("# nothing\n", 1, ["no FROM"]),
        ("FROM debian\nCOPY --from=x a /a\n", 2, ["--from=x"]),
        ("FROM debian\nADD https://example.org/x /x\n", 2, ["https://example.org/x", "network"]),
        ("FROM debian\nADD git@example.org:x /x\n", 2, ["network"]),
        ("FROM debian\nCOPY gone /a\n", 2, ["gone", "no such file"]),
        ("FROM debian\nCOPY ../secret /a\n", 2, ["../secret", "outside"]),
        ("FROM debian\nCOPY a/../../secret /a\n", 2, ["outside"]),
        ("FROM debian\nCOPY alone\n", 2, ["a destination"]),
        ("FROM debian\nRUN --mount=type=secret,id=x a\n", 2, ["--mount=type=secret"]),
        ("FROM debian\nENV A\n", 2, ["ENV A"]),
        ("FROM debian\nENV A='x\n", 2, ["quote is not closed"]),
        ("FROM debian\nENTRYPOINT [\"/usr/sbin/nginx\"]\n", 2, ["ENTRYPOINT", "service"]),
        ("FROM debian\nSHELL /bin/bash\n", 2, ["SHELL"]),
    ],
)  # fmt: skip
def test_what_is_not_known_is_named_with_its_line(tmp_path, text, line, parts):
    found, reason = refusal(tmp_path, text)
    assert found == line
    for part in parts:
        assert part in reason


def context(tmp_path):
    (tmp_path / "src" / "sub").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "src" / "main.py").write_text("m")
    (tmp_path / "src" / "sub" / "deep").write_text("d")
    (tmp_path / "src" / "run.sh").write_text("s")
    (tmp_path / "src" / "run.sh").chmod(0o755)
    (tmp_path / "src" / "link").symlink_to("/etc/hostname")
    for name in ("task.json", "test_initial_state.py", "test_final_state.py"):
        (tmp_path / name).write_text("secret")
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "s").write_text("secret")


@pytest.mark.parametrize(
    ("instruction", "wanted"),
    [
        ("COPY a.txt /x", ["/x"]),
        ("COPY a.txt /x/", ["/x/a.txt"]),
        ("COPY a.txt .", ["/w/a.txt"]),
        ("COPY a.txt sub/", ["/w/sub/a.txt"]),
        ("COPY a.txt /w", ["/w/a.txt"]),
        ("COPY *.txt /x/", ["/x/a.txt", "/x/b.txt"]),
        ("COPY a.txt src/main.py /x/", ["/x/a.txt", "/x/main.py"]),
        ("COPY src /x", ["/x", "/x/link", "/x/main.py", "/x/run.sh", "/x/sub", "/x/sub/deep"]),
        ('COPY ["a.txt", "/with space/"]', ["/with space/a.txt"]),
        ("COPY --chown=user:user --link a.txt /x", ["/x"]),
        (
            "COPY . /x",
            ["/x", "/x/a.txt", "/x/b.txt", "/x/src", "/x/src/link", "/x/src/main.py", "/x/src/run.sh", "/x/src/sub", "/x/src/sub/deep"],
        ),
    ],
)  # fmt: skip
def test_copy_places_files_as_docker_does(tmp_path, instruction, wanted):
    context(tmp_path)
    step = parsed(tmp_path, f"FROM debian\nWORKDIR /w\n{instruction}\n").steps[-1]
    assert sorted(step.files) == wanted


def test_copy_keeps_modes_and_links_and_chmod_sets_them(tmp_path):
    context(tmp_path)
    plain = parsed(tmp_path, "FROM debian\nCOPY src /x/\n").steps[-1].files
    assert (plain["/x/run.sh"].mode, plain["/x/main.py"].content) == (0o755, b"m")
    assert (plain["/x/link"].kind, plain["/x/link"].target) == ("link", "/etc/hostname")
    assert parsed(tmp_path, "FROM debian\nCOPY --chmod=600 a.txt /x\n").steps[-1].files["/x"].mode == 0o600


@pytest.mark.parametrize(
    "source", ["task.json", "test_final_state.py", "solutions", "solutions/s", "./task.json"]
)
def test_copy_of_tests_or_truth_is_refused(tmp_path, source):
    context(tmp_path)
    line, reason = refusal(tmp_path, f"FROM debian\nCOPY {source} /x\n")
    assert line == 2
    assert "tests or truth" in reason


def test_copy_does_not_go_through_a_link(tmp_path):
    context(tmp_path)
    (tmp_path / "out").symlink_to("/etc")
    assert "link" in refusal(tmp_path, "FROM debian\nCOPY out/hostname /x\n")[1]


def test_copy_of_here_documents(tmp_path):
    text = "FROM debian\nENV W=world\nCOPY <<EOF <<'RAW' /x/\nhello $W\nEOF\nhello $W\nRAW\n"
    files = parsed(tmp_path, text).steps[-1].files
    assert {path: entry.content for path, entry in files.items()} == {
        "/x/EOF": b"hello world\n",
        "/x/RAW": b"hello $W\n",
    }


def test_several_sources_need_a_folder(tmp_path):
    context(tmp_path)
    assert "several sources" in refusal(tmp_path, "FROM debian\nCOPY a.txt b.txt /x\n")[1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$A", "1"), ("${A}b", "1b"), ("$AB", ""), ("\\$A", "$A"), ("${E:-d}", "d"), ("${E-d}", ""), ("${X-d}", "d"),
        ("${A:+y}", "y"), ("${E:+y}", ""), ("${E+y}", "y"), ("${X:-$A}", "1"), ("a$", "a$"),
    ],
)  # fmt: skip
def test_variables(text, wanted):
    assert expand(text, {"A": "1", "E": ""}) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("""a'b c'd "$A x" '$A'""", ["ab cd", "1 x", "$A"]),
        (r"a\ b \"q\" \\", ["a b", '"q"', "\\"]),
        ('"a\\"b" ""', ['a"b', ""]),
        ("${X:-two words} e", ["two words", "e"]),
        ("\\", ["\\"]),
    ],
)
def test_words(text, wanted):
    assert split_words(text, {"A": "1"}) == wanted
