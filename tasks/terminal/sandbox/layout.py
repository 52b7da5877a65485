"""The command line of bubblewrap: what is isolated, and the file system that a sandbox sees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tasks.terminal.sandbox.interface import Root, SandboxLimits

ETC = {
    "passwd": b"root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": b"root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
}

_NAMESPACES = """
    --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --as-pid-1 --cap-drop ALL --clearenv
    --uid 1000 --gid 1000 --hostname sandbox"""
_BASE = """
    --dir /etc --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --ro-bind-try /etc/alternatives /etc/alternatives --dir /var
    --symlink /proc/mounts /etc/mtab --symlink ../usr/lib/os-release /etc/os-release --symlink /tmp /var/tmp"""
_SKELETON = {
    "/usr/local": "bin etc include lib sbin share share/man src",
    "/var": "backups cache lib local log mail opt spool spool/cron",
}
# What a build may expect of a distribution besides.
_OPEN_SKELETON = {
    **_SKELETON,
    "/etc": """cron.d cron.daily cron.hourly cron.monthly cron.weekly default init.d logrotate.d profile.d skel ssh ssl
        sudoers.d systemd systemd/system""",
    "": "home mnt media opt root srv run/lock",
}
_KERNEL = "--proc /proc --ro-bind /proc/sys /proc/sys --dev /dev --perms 1777 --size {size} --tmpfs /dev/shm"
_DISKS = """
    --perms 1777 --size {size} --tmpfs /tmp --size {size} --tmpfs /home/user --size {size} --tmpfs /tests
    --perms 0700 --size 8388608 --tmpfs /run/shell"""


def command_line(
    binary: Path, limits: SandboxLimits, files: dict[str, int], program: list[str], root: Root
) -> list[str]:
    """The whole command line: isolate, and run the program as process 1."""
    size = limits.disk_mb << 20
    root_size = size if root.open else (1 << 20) + sum(entry.size for _, entry in root.files)
    writable = sorted({*root.writable, *(("/usr/local",) if root.open else ())})
    return [
        str(binary),
        *_NAMESPACES.split(),
        *("--size", str(root_size), "--tmpfs", "/", "--ro-bind", "/usr", "/usr"),
        *_root_layout(),
        *(part for path in writable for part in ("--size", str(size), "--tmpfs", path)),
        *_skeleton(root, writable),
        *_BASE.split(),
        *(part for path, target in root.links for part in ("--symlink", target, path)),
        *_small_files(files, root),
        *_KERNEL.format(size=size).split(),
        *_DISKS.format(size=size).split(),
        *(("--ro-bind", str(root.tools), "/run/verifier") if root.tools else ()),
        *("--remount-ro", "/dev", *(() if root.open else ("--remount-ro", "/"))),
        *("--chdir", "/home/user", "--seccomp", str(files["seccomp"]), "--"),
        *program,
    ]


def _skeleton(root: Root, writable: Sequence[str]) -> list[str]:
    names = _OPEN_SKELETON if root.open else {path: _SKELETON[path] for path in writable if path in _SKELETON}
    return [
        part for path, folders in names.items() for f in folders.split() for part in ("--dir", f"{path}/{f}")
    ]


def _small_files(files: dict[str, int], root: Root) -> list[str]:
    modes = {path: entry.mode for path, entry in root.files}
    base = {f"/etc/{name}": name for name in ETC if f"/etc/{name}" not in modes}
    return [
        *(part for path, name in base.items() for part in ("--file", str(files[name]), path)),
        *(p for path in modes for p in ("--perms", f"{modes[path]:o}", "--file", str(files[path]), path)),
    ]


@cache
def _root_layout() -> tuple[str, ...]:
    """``/bin`` and the like as on the host: links into /usr where it has merged them, else bound."""
    arguments: list[str] = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return tuple(arguments)
