"""The system calls that a sandbox may not make, as a classic BPF program for ``bwrap --seccomp``.

The kernel runs the program on ``struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6]}``. A call of
another architecture than the machine's own kills the process, because its numbers would mean other calls.
"""

from __future__ import annotations

import platform
import struct

from harness.errors import InfrastructureError

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT, _AT_SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32_BIT = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into, or pasting on, the terminal of somebody else
_NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET


NUMBERS = {
    # name: (x86-64, AArch64), from the kernel's tables
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
}
DENIED = tuple(name for name in NUMBERS if name not in ("clone", "clone3", "ioctl"))
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*


def program(machine: str | None = None) -> bytes:
    """The filter for a machine (default: this one) as ``struct sock_filter`` entries. Raises InfrastructureError for a
    machine whose numbers are not known here."""
    name = machine or platform.machine()
    if name not in _ARCHITECTURES:
        raise InfrastructureError(f"no seccomp filter for {name}; known: {', '.join(_ARCHITECTURES)}")
    column, audit = _ARCHITECTURES[name]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _AT_NUMBER),
    ]
    if name == "x86_64":
        code += [(_JUMP_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    for call in DENIED:
        code += [(_JUMP_EQUAL, 0, 1, NUMBERS[call][column]), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    # The flags of clone3 lie in memory, out of a filter's sight: glibc falls back on clone when it is told ENOSYS.
    code += [(_JUMP_EQUAL, 0, 1, NUMBERS["clone3"][column]), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    code += [
        (_JUMP_EQUAL, 0, 2, NUMBERS["clone"][column]),
        (_LOAD, 0, 0, _AT_FIRST_ARGUMENT),
        (_JUMP_ANY_BIT, 4, 5, _NAMESPACE_FLAGS),
        (_JUMP_EQUAL, 0, 4, NUMBERS["ioctl"][column]),
        (_LOAD, 0, 0, _AT_SECOND_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, _TIOCSTI),
        (_JUMP_EQUAL, 0, 1, _TIOCLINUX),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
