"""What a sandbox cannot see or do. Each refusal has a control outside, so that the attempt is known to mean something."""

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest


def outside(command: str) -> str:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False).stdout


def test_the_agent_is_an_unprivileged_user_with_no_capabilities(shell):
    assert shell.output("id") == "uid=1000(user) gid=1000(user) groups=1000(user)\n"
    assert shell.output("grep Cap /proc/self/status | awk '{print $2}' | sort -u") == "0000000000000000\n"
    assert "NoNewPrivs:\t1" in shell.output("cat /proc/self/status")


def test_nothing_in_the_sandbox_runs_as_the_hosts_root(shell):
    inner = shell.output("cat /proc/self/uid_map").split()
    assert inner[0] == "1000"
    assert inner[2] == "1"
    shell.run("sleep 3.14159 >/dev/null &")
    pid = int(outside("pgrep -f 'sleep 3.14159'").split()[0])
    assert Path(f"/proc/{pid}").stat().st_uid not in (0, 1000)


def test_the_files_of_the_host_are_not_there(shell, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    for path in (
        secret,
        "/root",
        "/etc/shadow",
        "/etc/hostname",
        "/sys",
        Path(__file__).resolve(),
        "/boot",
        "/var/log",
    ):
        assert shell.run(f"ls -d '{path}'").exit_code == 2, path
    assert os.path.exists(secret)
    assert set(shell.output("ls -A /").split()) <= {
        *(
            "bin",
            "dev",
            "etc",
            "home",
            "lib",
            "lib32",
            "lib64",
            "libx32",
            "proc",
            "run",
            "sbin",
            "tests",
            "tmp",
            "usr",
            "var",
        )
    }


def test_the_system_cannot_be_written(shell):
    for target in (
        "/usr/bin/x",
        "/etc/passwd",
        "/x",
        "/bin/x",
        "/dev/x",
        "/home/x",
        "/run/x",
        "/var/x",
    ):
        result = shell.run(f"echo x >> {target}")
        assert result.exit_code == 1, target
        assert "Read-only file system" in result.output, target


@pytest.mark.parametrize(
    "name", ["kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory", "fs/file-max"]
)
def test_kernel_settings_cannot_be_written(shell, name):
    before = Path(f"/proc/sys/{name}").read_text() if name != "kernel/hostname" else None
    result = shell.run(f"cat /proc/sys/{name} > v; cat v > /proc/sys/{name}")
    assert result.exit_code == 1
    assert before is None or Path(f"/proc/sys/{name}").read_text() == before


def test_process_1_shows_neither_environment_nor_descriptors_nor_memory(shell):
    for attempt in (
        "cat /proc/1/environ",
        "ls /proc/1/fd",
        "cat /proc/1/maps",
        "ls -l /proc/1/exe",
        "ls /proc/1/cwd/",
        ": >/proc/1/mem",
    ):
        result = shell.run(attempt)
        assert result.exit_code != 0, attempt
        assert "ermission denied" in result.output, attempt
    own = shell.output(
        "sleep 1 >/dev/null & ls /proc/$!/fd | wc -l; tr '\\0' '\\n' </proc/$!/environ | grep HOME"
    )
    assert own == "3\nHOME=/home/user\n"  # control: of a process of its own, all of this can be read


def test_the_harness_environment_reaches_no_process(shells, monkeypatch):
    monkeypatch.setenv("VERY_SECRET", "token-4711")
    shell = shells.start()
    assert shell.output("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c 4711 || true") == "0\n"
    assert outside("env").count("token-4711") == 1


def test_only_the_three_standard_descriptors_are_open(shell):
    # ls itself opens the fourth, to read the folder.
    assert shell.output("ls /proc/self/fd").split() == ["0", "1", "2", "3"]
    assert shell.output("readlink /proc/self/fd/0") == "/dev/null\n"


def test_descriptors_of_the_harness_are_not_inherited(shells, tmp_path):
    with open(tmp_path / "open", "w") as file:
        os.set_inheritable(file.fileno(), True)
        shell = shells.start()
        names = shell.output("for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null; done; true")
    assert "/dev/null" in names
    assert "open" not in names


def test_there_is_no_network_and_the_hosts_loopback_is_another(shell):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        knock = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert subprocess.run(["bash", "-c", knock], capture_output=True, check=False).returncode == 0
        assert "Connection refused" in shell.run(knock).output
    assert shell.output("grep -c : /proc/net/dev") == "1\n"  # lo
    assert "unreachable" in shell.run("exec 3<>/dev/tcp/192.0.2.1/80", timeout_s=5).output


def test_a_server_inside_works_over_its_own_loopback(shell):
    serve = 'import socket\\ns = socket.create_server(("127.0.0.1", 8000))\\nc, _ = s.accept()\\nc.sendall(b"hello")'
    shell.output(f"printf '{serve}' > serve.py; python3 serve.py & sleep 0.3")
    assert shell.output("cat < /dev/tcp/127.0.0.1/8000") == "hello"


def test_abstract_sockets_of_the_host_are_out_of_reach(shell):
    name = f"bench-test-{os.getpid()}"
    attempt = f"""perl -e 'socket(S, 1, 1, 0); exit !connect(S, pack("S a*", 1, "\\0{name}"))'"""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        accepting = threading.Thread(target=server.accept, daemon=True)
        accepting.start()
        assert subprocess.run(["bash", "-c", attempt], check=False).returncode == 0
        assert shell.run(attempt).exit_code == 1


def test_processes_of_other_sandboxes_and_of_the_host_are_invisible(shells):
    one, other = shells.start(), shells.start()
    one.run("exec -a findme sleep 30 >/dev/null &")
    assert other.output("ps -e -o comm= | sort -u").split() == ["bash", "guest", "ps", "sort"]
    one.run("echo secret > /tmp/note; echo secret > /dev/shm/note")
    assert other.output("ls -A /tmp /dev/shm") == "/dev/shm:\n\n/tmp:\n"


@pytest.mark.parametrize(
    ("call", "number", "arguments"),
    [
        ("keyctl", 250, "0, -3, 0, 0, 0"),
        ("add_key", 248, "0, 0, 0, 0, -3"),
        ("unshare", 272, "0x10000000"),
        ("mount", 165, "0, 0, 0, 0, 0"),
        ("ptrace", 101, "0, 0, 0, 0"),
        ("bpf", 321, "0, 0, 0"),
        ("io_uring_setup", 425, "1, 0"),
        ("userfaultfd", 323, "0"),
        ("setns", 308, "0, 0"),
        ("perf_event_open", 298, "0, 0, 0, 0, 0"),
        ("clone with a new user namespace", 56, "0x10000011, 0, 0, 0, 0"),
        ("ioctl TIOCSTI", 16, "0, 0x5412, 0"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
def test_dangerous_system_calls_are_refused(shell, call, number, arguments):
    attempt = f"perl -e '$r = syscall({number}, {arguments}); print $r == -1 ? $!+0 : 0; exit 0 if $r'"
    assert shell.output(attempt) == "1"  # EPERM
    if call in (
        "keyctl",
        "io_uring_setup",
        "ioctl TIOCSTI",
    ):  # controls: outside they fail for a reason of their own, or not at all
        assert outside(attempt + " </dev/null") != "1"


def test_clone3_is_answered_as_by_an_old_kernel_so_that_programs_fall_back(shell):
    assert shell.output("perl -e 'syscall(435, 0, 0); print $!+0'") == "38"
    assert (
        shell.output(
            "python3 -c 'import threading; t = threading.Thread(target=print, args=(7,)); t.start(); t.join()'"
        )
        == "7\n"
    )


def test_new_namespaces_cannot_be_made(shell):
    for flags in ("--user", "--mount", "--net", "--pid --fork"):
        assert shell.run(f"unshare {flags} true").exit_code == 1, flags


def test_devices_are_the_harmless_ones(shell):
    assert set(shell.output("ls /dev").split()) <= {
        *(
            "console",
            "core",
            "fd",
            "full",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        )
    }
    assert shell.run("mknod d b 8 0").exit_code == 1
