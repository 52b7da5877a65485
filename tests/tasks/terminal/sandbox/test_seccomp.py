"""The filter is run here by a small interpreter of classic BPF, on the calls that matter."""

import re
import struct
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from tasks.terminal.sandbox import seccomp

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def evaluate(program: bytes, number: int, architecture: int, *arguments: int) -> int:
    """As the kernel does: struct seccomp_data in, the action out."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    code = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        if operation == 0x06:
            return k
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
            continue
        holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
        at += if_true if holds else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_denied_call_is_refused_and_its_neighbours_are_not(machine):
    program = seccomp.program(machine)
    column = ["x86_64", "aarch64"].index(machine)
    denied = {seccomp.NUMBERS[name][column] for name in seccomp.DENIED}
    special = {seccomp.NUMBERS[name][column] for name in ("clone", "clone3", "ioctl")}
    for number in range(460):
        if number not in special:
            assert evaluate(program, number, AUDIT[machine]) == (EPERM if number in denied else ALLOW), number


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_are_judged_by_their_arguments_where_these_matter(machine):
    program, architecture = seccomp.program(machine), AUDIT[machine]
    column = ["x86_64", "aarch64"].index(machine)
    clone, clone3, ioctl = (seccomp.NUMBERS[name][column] for name in ("clone", "clone3", "ioctl"))
    assert evaluate(program, clone, architecture, 0x01200011) == ALLOW  # fork
    assert evaluate(program, clone, architecture, 0x003D0F00) == ALLOW  # pthread_create
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert evaluate(program, clone, architecture, flag | 17) == EPERM, hex(flag)
    assert evaluate(program, clone3, architecture) == ENOSYS
    assert evaluate(program, ioctl, architecture, 0, 0x5401) == ALLOW  # TCGETS
    assert evaluate(program, ioctl, architecture, 0, 0x5412) == EPERM
    assert (
        evaluate(program, ioctl, architecture, 0, 0xFFFFFFFF_00005412) == EPERM
    )  # the kernel looks at 32 bits
    assert evaluate(program, ioctl, architecture, 0, 0x541C) == EPERM


def test_calls_of_another_architecture_kill():
    assert evaluate(seccomp.program("x86_64"), 1, 0x40000003) == KILL  # i386
    assert evaluate(seccomp.program("aarch64"), 1, AUDIT["x86_64"]) == KILL


def test_the_x32_numbers_of_x86_64_are_unknown():
    assert evaluate(seccomp.program("x86_64"), 0x40000000 | 101, AUDIT["x86_64"]) == ENOSYS


def test_an_unknown_machine_is_refused_by_name():
    with pytest.raises(InfrastructureError, match="riscv64"):
        seccomp.program("riscv64")


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")],
)
def test_the_numbers_are_those_of_the_kernels_headers(column, header):
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"{path} is not installed (linux-libc-dev)")
    official = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text()))
    for name, numbers in seccomp.NUMBERS.items():
        assert int(official[name]) == numbers[column], name
