"""Builds in real sandboxes: what they make, and which line they blame."""

import asyncio
import io
import tarfile

import pytest

from tasks.terminal.formats.build import Built, build
from tasks.terminal.formats.context import Context
from tasks.terminal.formats.definition import parse_definition
from tasks.terminal.formats.dockerfile import parse_dockerfile
from tasks.terminal.formats.layers import STANDARD, layer_of
from tasks.terminal.formats.machine import installed_packages
from tasks.terminal.formats.plan import BuildFileError
from tasks.terminal.formats.tools import sandbox_python

HEADER = "Bootstrap: localimage\nFrom: ./ubuntu_22.04.sif\n\n%post\n"
PACKAGES = frozenset(["git", "jq", "libc6"])


class Layer:
    """A built layer, looked at."""

    def __init__(self, layer):
        self.layer = layer
        with tarfile.open(fileobj=io.BytesIO(layer.archive)) as archive:
            self.members = {"/" + m.name.removeprefix("./"): m for m in archive}
            self.texts = {
                "/" + m.name.removeprefix("./"): archive.extractfile(m).read().decode(errors="replace")
                for m in archive
                if m.isreg()
            }


@pytest.fixture
def built(backend, tmp_path):
    def run(text, timeout_s=60.0):
        context = Context(tmp_path)
        plan = (
            parse_definition(text, context.copy)
            if text.startswith("Bootstrap")
            else parse_dockerfile(text, context)
        )
        return Layer(layer_of(asyncio.run(build(backend, plan, PACKAGES, timeout_s, sandbox_python()))))

    return run


def post(*lines):
    return HEADER + "".join(f"    {line}\n" for line in lines)


def test_only_what_the_build_changed_is_in_the_layer(built):
    layer = built(post("echo a > /home/user/a", "mkdir -p /opt/x", "echo b > /opt/x/b", "rm -f /etc/none"))
    assert set(layer.texts) == {"/home/user/a", "/opt/x/b"}
    assert set(layer.members) - set(layer.texts) == {"/home/user", "/opt", "/opt/x"}
    assert layer.layer.writable == STANDARD
    assert {(m.uid, m.gid) for m in layer.members.values()} == {(1000, 1000)}


def test_folders_of_the_root_become_the_agents_and_single_files_stay_read_only(built):
    layer = built(
        post(
            "mkdir /app /etc/app && echo 1 > /app/f && echo 2 > /etc/app/conf",
            "echo 3 > /etc/motd && chmod 640 /etc/motd && ln -s /app /current && echo 4 > /top",
            "printf x > /usr/local/bin/tool",
        )
    ).layer
    assert layer.writable == tuple(sorted((*STANDARD, "/app", "/etc/app", "/usr/local")))
    assert {path: (entry.mode, entry.content) for path, entry in layer.files} == {
        "/etc/motd": (0o640, b"3\n"),
        "/top": (0o644, b"4\n"),
    }
    assert layer.links == (("/current", "/app"),)


def test_what_runs_as_root_elsewhere_runs_here(built):
    layer = built(
        post(
            "apt-get update && apt-get install -y --no-install-recommends python3-pip git jq=1.6-2 && apt-get clean",
            "pip3 install --quiet pytest==8.0 && python3 -m pip install --upgrade pip",
            "useradd -m -s /bin/bash user && useradd -m worker && groupadd staff2 && usermod -aG staff2 worker",
            "chown -R user:user /home/user && chgrp worker /home/worker",
            "install -d -o user -g user -m 750 /home/user/made",
            "su - user -c 'echo su > /home/user/su' && sudo -u user -H sh -c 'echo sudo > /home/user/sudo'",
            "runuser -u user -- sh -c 'echo runuser > /home/user/runuser'",
            "systemctl enable cron || exit 9; service cron start; update-ca-certificates",
            "id -un > /home/user/name; grep -c worker /etc/passwd >> /home/user/name; echo $HOME >> /home/user/name",
        )
    )
    assert {
        "/home/user/su": "su\n",
        "/home/user/sudo": "sudo\n",
        "/home/user/runuser": "runuser\n",
    }.items() <= layer.texts.items()
    assert layer.members["/home/user/made"].mode == 0o750
    assert "/home/worker" in layer.members
    assert layer.texts["/home/user/name"] == "user\n1\n/root\n"
    assert b"worker:x:1001:1001::/home/worker:/bin/sh\n" in dict(layer.layer.files)["/etc/passwd"].content


def test_archives_made_as_root_unpack(built, tmp_path):
    with tarfile.open(tmp_path / "site.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("site/index.html")
        member.size, member.uid, member.gid = 3, 12345, 54321
        archive.addfile(member, io.BytesIO(b"<a>"))
    layer = built(
        "FROM debian\nCOPY site.tar.gz /opt/\nRUN tar -C /opt -xf /opt/site.tar.gz\nADD site.tar.gz /srv/\n"
    )
    assert layer.texts["/opt/site/index.html"] == layer.texts["/srv/site/index.html"] == "<a>"
    assert not any("/run/" in path for path in layer.members)


def test_the_shell_of_the_build_is_sh_and_not_bash(built):
    layer = built(post("mkdir -p /home/user/{a,b}", "echo 'a\\tb' > /home/user/t"))
    assert "/home/user/{a,b}" in layer.members
    assert layer.texts["/home/user/t"] == "a\tb\n"


def test_a_dockerfile_builds_step_by_step(built, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print(1)\n")
    text = (
        "FROM python:3.11-slim\nARG WHO=me\nENV MODE=fast\nWORKDIR /app\nCOPY app .\n"
        "RUN echo $WHO $MODE $(pwd) $HOME > out\n"
        "RUN cat > doc << 'EOF'\n$MODE stays\nEOF\n"
        "RUN <<'EOF'\n#!/usr/bin/env python3\nopen('/app/py', 'w').write('from python')\nEOF\n"
        'RUN ["touch", "/app/exec form"]\n'
        "USER worker\nRUN echo $HOME > home\n"
        'SHELL ["/bin/bash", "-c"]\nRUN echo ${BASH_VERSION:+bash} > shell\n'
    )
    layer = built(text)
    assert layer.texts == {
        "/app/main.py": "print(1)\n",
        "/app/out": "me fast /app /root\n",
        "/app/doc": "$MODE stays\n",
        "/app/py": "from python",
        "/app/exec form": "",
        "/app/home": "/home/worker\n",
        "/app/shell": "bash\n",
    }


def test_only_the_last_command_of_run_decides(built):
    assert built("FROM debian\nRUN false; echo a > /srv/a\n").texts == {"/srv/a": "a\n"}


def test_services_started_while_building_do_not_hold_it_up(built):
    layer = built(post("sleep 300 &", "nohup sh -c 'sleep 300' >/dev/null 2>&1 &", "echo a > /home/user/a"))
    assert layer.texts == {"/home/user/a": "a\n"}


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        (HEADER + "cat <<X\nfalse\nX\n\nfalse\n\ntrue\n", 9, ["exit code 1"]),
        (post("echo a", "", "# note", "if true; then", "  false", "fi", "true"), 10, ["exit code 1"]),
        (post("a() {", "  ls /nowhere", "}", "a", "true"), 8, ["exit code 2", "nowhere"]),
        (post("apt-get install -y \\", "  git \\", "  cowsay || true", "true"), 7, ["needs the network", "cowsay"]),
        (post("pip install numpy-of-nobody"), 5, ["needs the network", "pip install numpy-of-nobody"]),
        (post("true", "curl -fsSL https://example.org/x -o /x || true"), 6, ["needs the network", "https://example.org/x"]),
        (post("wget -q http://example.org/x; true"), 5, ["needs the network", "wget"]),
        (post("git clone https://example.org/r.git /opt/r || true"), 5, ["needs the network", "git clone"]),
        (post("npm install -g x || true"), 5, ["needs the network", "npm install"]),
        (post("touch /usr/bin/x"), 5, ["Read-only file system"]),
        (post("mkdir -p /tests && echo x > /tests/conftest.py"), 1, ["/tests/conftest.py", "verifier"]),
        (post("echo /home/user/x.so > /etc/ld.so.preload"), 1, ["ld.so.preload"]),
        (post("head -c 90000000 /dev/urandom > /home/user/big"), 1, ["more than 67108864 bytes"]),
        (post("nosuchcommand"), 5, ["exit code 127", "nosuchcommand"]),
        ("FROM debian\n\nRUN true && \\\n  false\n", 3, ["exit code 1"]),
        ("FROM debian\nRUN true\nRUN <<EOF\ntrue\nexit 3\nEOF\n", 3, ["exit code 3"]),
        ("FROM debian\nRUN [\"nosuchprogram\"]\n", 2, ["exit code 127", "nosuchprogram"]),
        ("FROM debian\nCOPY f /usr/bin/f\n", 2, ["/usr/bin/f"]),
        ("FROM debian\nRUN apt-get update\nRUN apt-get install -y nginx\n", 3, ["needs the network", "nginx"]),
    ],
)  # fmt: skip
def test_what_fails_is_named_with_its_line(built, tmp_path, text, line, parts):
    (tmp_path / "f").write_text("x")
    with pytest.raises(BuildFileError) as caught:
        built(text)
    assert caught.value.line == line
    for part in parts:
        assert part in caught.value.reason


def test_a_service_that_goes_on_writing_ends_with_the_build(built):
    layer = built(post("sh -c 'while :; do date +%N >> /srv/log; done' >/dev/null 2>&1 &", "sleep 0.2"))
    assert layer.texts["/srv/log"].count("\n") > 1


def test_what_cannot_be_read_as_an_archive_is_named():
    with pytest.raises(BuildFileError, match="what the build left cannot be read"):
        layer_of(Built(b"x" * 2000, {}))


def test_a_build_that_does_not_end_is_ended(built):
    with pytest.raises(BuildFileError) as caught:
        built(post("true", "sleep 300"), timeout_s=1.0)
    assert (caught.value.line, caught.value.reason) == (6, "no end within 1 s")


def test_downloads_from_the_machine_itself_are_no_network(built):
    layer = built(
        post(
            "echo x > /srv/x",
            "curl -s file:///srv/x > /srv/y",
            "git init -q /srv/r && git clone -q /srv/r /srv/c",
        )
    )
    assert layer.texts["/srv/y"] == "x\n"
    assert "/srv/c" in layer.members


def test_a_build_has_no_network(built):
    probe = "python3 -c 'import socket; print(socket.if_nameindex())' > /srv/interfaces"
    assert built(post(probe)).texts["/srv/interfaces"] == "[(1, 'lo')]\n"


def test_the_packages_of_a_dpkg_status_file(tmp_path):
    status = tmp_path / "status"
    status.write_text(
        "Package: git\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: gone\nStatus: deinstall ok config-files\n\n"
        "Package: jq\nPriority: optional\nStatus: install ok installed\n"
    )
    assert installed_packages(status) == {"git", "jq"}
    assert installed_packages(tmp_path / "none") == frozenset()
