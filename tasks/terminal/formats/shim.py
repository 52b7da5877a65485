"""Stands in for programs that a build calls as root, or to reach the network. Runs inside a build's sandbox, under their names.

Accounts and ownership: everything in a sandbox belongs to one user, so that changing the owner is a success that does nothing,
and a new account is a line of /etc/passwd and a home folder. Packages: what the base has is a success; what it lacks is
written to /run/build/refused, which makes the task unusable whatever the script does with the exit code. Standard library only:
the file travels as it is.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

NAME = os.path.basename(sys.argv[0])
ARGUMENTS = sys.argv[1:]
HERE = "/run/build"
REAL_PATH = (
    ":".join(p for p in os.environ.get("PATH", "").split(":") if p != HERE + "/bin") or "/usr/bin:/bin"
)
PIP_STAND_INS = {
    "pip",
    "setuptools",
    "wheel",
    "virtualenv",
    "pytest",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
}


def refuse(what: str) -> NoReturn:
    """End the build here, so that its line can be told: an exit code could be ignored."""
    with open(HERE + "/refused", "a") as file:
        file.write(f"refused: {what}\n")
    os.kill(-1, signal.SIGKILL)
    sys.exit(100)


def real() -> NoReturn:
    path = shutil.which(NAME, path=REAL_PATH)
    if path is None:
        sys.stderr.write(f"{NAME}: not found\n")
        sys.exit(127)
    os.execv(path, [NAME, *ARGUMENTS])


def execute(command: list[str]) -> NoReturn:
    if not command:
        sys.exit(0)
    path = shutil.which(command[0], path=os.environ.get("PATH"))
    if path is None:
        sys.stderr.write(f"{NAME}: {command[0]}: command not found\n")
        sys.exit(127)
    os.execv(path, command)


def words(with_value: Sequence[str] = ()) -> list[str]:
    """Arguments that are no options; ``with_value``: options that take the next argument."""
    found: list[str] = []
    skip = False
    for argument in ARGUMENTS:
        if skip:
            skip = False
        elif argument in with_value:
            skip = True
        elif not argument.startswith("-"):
            found.append(argument)
    return found


def apt() -> None:
    named = words(("-o", "-t", "-c", "--option", "--target-release", "--config-file"))
    if not named or named[0] not in ("install", "build-dep", "source", "download"):
        sys.exit(0)
    with open(HERE + "/packages") as file:
        present = set(file.read().split())
    missing = []
    for name in named[1:]:
        plain = re.split(r"[=/:]", name)[0]
        if plain not in present and plain.rstrip("+") not in present and not plain.endswith("-"):
            missing.append(plain)
    if missing or named[0] != "install":
        refuse("needs the network: " + " ".join([NAME, named[0], *(missing or named[1:])]))


def pip() -> None:
    named = words(
        (
            "-i",
            "--index-url",
            "--extra-index-url",
            "-c",
            "--constraint",
            "-t",
            "--target",
            "--prefix",
            "--timeout",
            "-f",
            "--find-links",
            "--trusted-host",
            "--root",
            "--python-version",
            "--platform",
        )
    )
    if not named or named[0] not in ("install", "download", "wheel"):
        sys.exit(0)
    wanted = named[1:]
    for option, path in itertools.pairwise(ARGUMENTS):
        if option in ("-r", "--requirement"):
            wanted.remove(path)
            with open(path) as file:
                lines = [line.split("#")[0].strip() for line in file]
            wanted += [line for line in lines if line and not line.startswith("-")]
    missing = []
    for requirement in wanted:
        name = re.split(r"[\s\[<>=!~;@]", requirement)[0]
        try:
            if re.sub(r"[-_.]+", "-", name).lower() not in PIP_STAND_INS:
                importlib.metadata.distribution(name)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            missing.append(requirement)
    if missing:
        refuse("needs the network: pip install " + " ".join(missing))


def is_remote(argument: str) -> bool:
    match = re.match(r"(?:[a-z+]+://)?(?:[^/@]*@)?([^/:]+)", argument)
    return not argument.startswith("file:") and (not match or match[1] not in ("localhost", "127.0.0.1"))


def download() -> None:
    targets = [
        a
        for a in words(("-o", "-O", "-H", "-d", "-X", "-u", "-A", "-P", "--output", "--header", "--data"))
        if is_remote(a)
    ]
    if targets:
        refuse("needs the network: " + " ".join([NAME, targets[0]]))
    real()


def git() -> None:
    named = words(("-C", "-c", "--git-dir", "--work-tree", "-b", "--depth", "--branch", "-o", "--origin"))
    if named and named[0] in ("clone", "fetch", "pull", "push", "ls-remote", "submodule"):
        remote = [a for a in named[1:] if re.match(r"(?:https?|ssh|git|ftps?)://|[\w.-]+@[\w.-]+:", a)]
        if remote:
            refuse(f"needs the network: git {named[0]} {remote[0]}")
    real()


def network_only() -> None:
    if any(a in ("--version", "-v", "-V", "--help") for a in ARGUMENTS):
        real()
    refuse("needs the network: " + " ".join([NAME, *ARGUMENTS[:3]]))


def account() -> None:
    path = "/etc/group" if "group" in NAME else "/etc/passwd"
    values = (
        "-u",
        "-g",
        "-G",
        "-d",
        "-s",
        "-c",
        "-p",
        "-e",
        "-f",
        "-k",
        "-K",
        "-b",
        "--uid",
        "--gid",
        "--home",
        "--home-dir",
        "--shell",
        "--comment",
        "--gecos",
        "--groups",
        "--ingroup",
        "--password",
        "--base-dir",
    )
    named = words(values)
    if not named:
        sys.exit(2)
    if NAME == "adduser" and len(named) == 2:
        sys.exit(0)  # a user into a group
    with open(path) as file:
        lines = file.read().splitlines()
    home = f"/home/{named[0]}"
    options = dict(itertools.pairwise(ARGUMENTS))
    home = options.get("-d") or options.get("--home-dir") or options.get("--home") or home
    shell = options.get("-s") or options.get("--shell") or "/bin/sh"
    if not any(line.split(":")[0] == named[0] for line in lines):
        number = options.get("-u") or options.get("--uid") or options.get("-g") or options.get("--gid") or ""
        taken = {line.split(":")[2] for line in lines}
        number = (
            number if number.isdigit() else next(str(n) for n in range(1001, 60000) if str(n) not in taken)
        )
        entry = (
            f"{named[0]}:x:{number}:"
            if "group" in NAME
            else f"{named[0]}:x:{number}:{number}::{home}:{shell}"
        )
        with open(path, "a") as file:
            file.write(entry + "\n")
        if "group" not in NAME:
            with open("/etc/group", "a") as file:
                file.write(f"{named[0]}:x:{number}:\n")
    wants_home = NAME == "adduser" or any(re.match(r"-[a-zA-Z]*m|--create-home", a) for a in ARGUMENTS)
    if "group" not in NAME and wants_home and "--no-create-home" not in ARGUMENTS and "-M" not in ARGUMENTS:
        os.makedirs(home, exist_ok=True)


def as_user() -> None:
    """su, runuser, sudo and the like: the command, as it is."""
    if NAME in ("su", "runuser") and any(a in ("-c", "--command") for a in ARGUMENTS):
        at = next(i for i, a in enumerate(ARGUMENTS) if a in ("-c", "--command"))
        execute(["sh", "-c", ARGUMENTS[at + 1]])
    rest = list(ARGUMENTS)
    if NAME in ("gosu", "su-exec"):
        execute(rest[1:])
    while rest and (rest[0].startswith("-") or re.match(r"[A-Za-z_]\w*=", rest[0])):
        option = rest.pop(0)
        if option == "--":
            break
        if not option.startswith("-"):
            name, _, value = option.partition("=")
            os.environ[name] = value
        elif option in ("-u", "-g", "-h", "-p", "--user", "--group"):
            rest.pop(0)
    if NAME == "su":
        sys.exit(0)
    execute(rest)


def install() -> None:
    kept: list[str] = []
    skip = False
    for argument in ARGUMENTS:
        if skip:
            skip = False
        elif argument in ("-o", "-g", "--owner", "--group"):
            skip = True
        elif not re.match(r"--(?:owner|group)=|-[og].", argument):
            kept.append(argument)
    ARGUMENTS[:] = kept
    real()


def nothing() -> None:
    """A success without effect."""


ACTIONS: dict[Callable[[], Any], str] = {
    apt: "apt apt-get aptitude",
    pip: "pip pip3",
    download: "curl wget",
    git: "git",
    network_only: "npm npx yarn pnpm gem bundle cargo rustup conda mamba uv uvx pipx go add-apt-repository apt-key snap",
    account: "useradd adduser groupadd addgroup",
    as_user: "su sudo runuser gosu su-exec",
    install: "install",
    nothing: "chown chgrp usermod groupmod passwd chpasswd userdel groupdel deluser delgroup chage gpasswd visudo "
    "systemctl service update-rc.d invoke-rc.d ldconfig update-ca-certificates locale-gen update-locale dpkg-reconfigure "
    "update-alternatives setcap debconf-set-selections chattr",
}

if __name__ == "__main__":
    for action, names in ACTIONS.items():
        if NAME in names.split():
            action()
