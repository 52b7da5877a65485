"""What goes in and what comes out: writing a task's files, freezing, reading without following links, verifying."""

import pytest

from harness.errors import EnvironmentFault, InfrastructureError
from tasks.terminal.filetree import Entry, folder, link, text_file
from tasks.terminal.sandbox.interface import SnapshotTooLarge


def test_files_arrive_with_content_mode_and_owner(shell):
    shell.write(
        {
            "/home/user/a/b/run.sh": text_file("#!/bin/bash\necho ran\n", 0o755),
            "/home/user/data": Entry("file", 0o600, content=bytes(range(256))),
            "/home/user/closed": folder(0o500),
            "/home/user/closed/inner": text_file("x", 0o400),
            "/home/user/points": link("a/b/run.sh"),
            "/tmp/with space\nand newline": text_file(""),
        }
    )
    assert shell.output(
        "a/b/run.sh; ./points; md5sum < data; stat -c '%a %U %F' a data closed closed/inner points /tmp/w*"
    ) == (
        "ran\nran\ne2c865db4162bed963bfaa9ef6ac18f0  -\n755 user directory\n600 user regular file\n500 user directory\n"
        "400 user regular file\n777 user symbolic link\n644 user regular empty file\n"
    )


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({"relative": text_file("x")}, "relative"),
        ({"/home/user/../x": text_file("x")}, "normalised"),
        ({"/etc/passwd": text_file("x")}, "Read-only file system"),
        ({"/home/user/device": Entry("other", 0o600)}, "cannot be made"),
        ({"/home/user/big": Entry("file", 0o600, content=None, size=9)}, "without content"),
    ],
)
def test_a_file_that_cannot_be_made_is_a_fault_of_the_task(shell, tree, names):
    with pytest.raises(EnvironmentFault, match=names):
        shell.write(tree)
    assert shell.output("echo ok") == "ok\n"


def test_writing_never_goes_through_a_link(shell):
    shell.output("mkdir real; ln -s real folder; echo old > real/f; ln -s real/f file")
    with pytest.raises(EnvironmentFault, match="not a folder"):
        shell.write({"/home/user/folder/g": text_file("x")})
    shell.write({"/home/user/file": text_file("new")})
    assert shell.output("cat real/f file; ls real") == "old\nnewf\n"


def test_a_snapshot_is_what_lstat_sees(shell):
    shell.output(
        "echo hi > f; chmod 640 f; ln f hard; ln -s /etc/passwd out; ln -s nowhere dangling; mkdir -m 711 d; mkfifo d/pipe\n"
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d/socket\")'; : > empty"
    )
    shell.freeze()
    tree = shell.snapshot("/home/user")
    assert list(tree) == [
        f"/home/user{name}"
        for name in ("", "/d", "/d/pipe", "/d/socket", "/dangling", "/empty", "/f", "/hard", "/out")
    ]
    assert tree["/home/user/f"] == Entry("file", 0o640, content=b"hi\n", size=3, links=2)
    assert tree["/home/user/hard"] == tree["/home/user/f"]
    assert tree["/home/user/out"] == Entry("link", 0o777, target="/etc/passwd", size=11)
    assert tree["/home/user/dangling"].target == "nowhere"
    assert (tree["/home/user/d"].kind, tree["/home/user/d"].mode) == ("dir", 0o711)
    assert tree["/home/user/d/pipe"].kind == tree["/home/user/d/socket"].kind == "other"
    assert tree["/home/user/empty"].content == b""


def test_a_root_behind_a_link_is_not_read(shell):
    shell.output("mkdir real; echo x > real/f; ln -s real alias; ln -s / all")
    shell.freeze()
    assert shell.snapshot("/home/user/alias/f", "/home/user/all/etc", "/home/user/nosuch") == {}
    assert list(shell.snapshot("/home/user/real/f")) == ["/home/user/real/f"]


def test_files_and_folders_without_permission_are_read_and_keep_their_modes(shell):
    shell.output("mkdir -p d/e; echo deep > d/e/f; echo secret > s; chmod 000 s d/e/f d/e d")
    shell.freeze()
    first, second = shell.snapshot("/home/user"), shell.snapshot("/home/user")
    assert first == second
    assert {path: entry.mode for path, entry in first.items()} == {
        "/home/user": 0o755,
        "/home/user/d": 0,
        "/home/user/d/e": 0,
        "/home/user/d/e/f": 0,
        "/home/user/s": 0,
    }
    assert (first["/home/user/d/e/f"].content, first["/home/user/s"].content) == (b"deep\n", b"secret\n")


def test_large_files_come_without_content_and_sparse_ones_are_not_read(shell):
    shell.output("head -c 2000 /dev/zero > large; truncate -s 60M sparse; echo small > small")
    shell.freeze()
    tree = shell.snapshot("/home/user", max_bytes_per_file=1000)
    assert tree["/home/user/large"] == Entry("file", 0o644, content=None, size=2000)
    assert tree["/home/user/sparse"].content is None
    assert tree["/home/user/small"].content == b"small\n"


def test_the_contents_together_are_bounded(shell):
    shell.output("for i in 1 2 3; do head -c 600 /dev/zero > $i; done")
    shell.freeze()
    tree = shell.snapshot("/home/user", max_total_bytes=1500)
    assert [tree[f"/home/user/{i}"].content is None for i in (1, 2, 3)] == [False, False, True]


def test_too_many_files_are_an_answer_of_their_own(shell):
    shell.output("touch {1..50}")
    shell.freeze()
    with pytest.raises(SnapshotTooLarge, match="more than 20 files"):
        shell.snapshot("/home/user", max_entries=20)
    assert len(shell.snapshot("/home/user", max_entries=51)) == 51


def test_a_tree_deeper_than_a_path_may_be_long_does_not_hang_or_hide_the_rest(shell):
    shell.output("""perl -e 'for (1 .. 600) { mkdir "d" x 20; chdir "d" x 20 }'; echo x > zz""")
    shell.freeze()
    tree = shell.snapshot("/home/user")
    assert tree["/home/user/zz"].content == b"x\n"
    assert len(tree) > 100


def test_freezing_kills_loops_in_the_background_and_refuses_commands(shell):
    shell.run(
        "trap '' TERM HUP; (while :; do echo tick >> ticks; done) >/dev/null 2>&1 & (setsid sleep 30 &) >/dev/null"
    )
    shell.freeze()
    first = shell.snapshot("/home/user/ticks")
    assert first == shell.snapshot("/home/user/ticks")
    with pytest.raises(InfrastructureError, match="refused after the freeze"):
        shell.run("echo again")


def test_reading_and_verifying_are_refused_before_the_freeze(shell):
    with pytest.raises(InfrastructureError, match="refused before the freeze"):
        shell.snapshot("/home/user")
    with pytest.raises(InfrastructureError, match="refused before the freeze"):
        shell.verify({}, ["/bin/true"])


def test_the_verdict_is_the_exit_status_of_a_new_process_with_a_clean_environment(shell):
    shell.write({"/home/user/answer": text_file("42\n")})
    shell.run(
        "export PYTHONPATH=/home/user LD_PRELOAD=/home/user/evil.so PATH=/home/user:$PATH; test() { :; }; export -f test"
    )
    shell.run(
        "printf 'import os; os._exit(0)' > sitecustomize.py; mkdir -p /tests; printf 'planted' > /tests/conftest.py"
    )
    shell.freeze()
    check = text_file(
        "import os, sys\nprint(sorted(os.environ), os.listdir('/tests'))\n"
        "sys.exit(0 if open('/home/user/answer').read() == '42\\n' else 1)\n"
    )
    result = shell.verify({"/tests/check.py": check}, ["/usr/bin/python3", "-I", "/tests/check.py"])
    assert (result.exit_status, result.output) == (0, "['HOME', 'LANG', 'PATH'] ['check.py']\n")


@pytest.mark.parametrize(
    ("code", "status"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_a_verifier_that_says_no_says_how(shell, code, status):
    shell.freeze()
    result = shell.verify({"/tests/t.py": text_file(code)}, ["/usr/bin/python3", "-I", "/tests/t.py"])
    assert (result.exit_status, result.timed_out) == (status, False)


def test_a_verifier_out_of_time_has_no_status(shell):
    shell.freeze()
    result = shell.verify({}, ["/bin/sleep", "30"], timeout_s=0.2)
    assert (result.exit_status, result.timed_out) == (None, True)


def test_a_verifier_that_cannot_run_is_a_failure_of_the_infrastructure(shell):
    shell.freeze()
    with pytest.raises(InfrastructureError, match="verifier cannot run: /nosuch"):
        shell.verify({}, ["/nosuch"])


def test_tests_cannot_be_put_elsewhere(shell):
    shell.freeze()
    with pytest.raises(EnvironmentFault, match="belong under /tests"):
        shell.verify({"/home/user/t.py": text_file("")}, ["/bin/true"])
