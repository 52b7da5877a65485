import dataclasses
import gzip
import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.terminal import checks
from tasks.terminal.checks import (
    Absent,
    ArchiveHolds,
    FileIs,
    FolderHolds,
    GzipOf,
    HardLinked,
    HasLine,
    HasMode,
    IsFolder,
    LinkTo,
    NumberNear,
    Unchanged,
)
from tasks.terminal.filetree import Entry, folder, link, text_file

A = "/home/user/a.txt"


def binary(data):
    return Entry("file", 0o644, content=data, size=len(data))


def tar(name, text, **over):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=over.pop("mode", "w")) as bundle:
        info = tarfile.TarInfo(name)
        info.size = len(text)
        for key, value in over.items():
            setattr(info, key, value)
        bundle.addfile(info, io.BytesIO(text.encode()))
    return binary(buffer.getvalue())


def zipped(name, text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        bundle.writestr(name, text)
    return binary(buffer.getvalue())


@pytest.mark.parametrize(
    ("check", "tree", "holds"),
    [
        (FileIs(A, "fox\n"), {A: text_file("fox")}, True),
        (FileIs(A, "fox"), {A: text_file("fox\n\n")}, True),
        (FileIs(A, "fox"), {A: text_file(" fox\n")}, False),
        (FileIs(A, "fox"), {}, False),
        (FileIs(A, ""), {A: text_file("")}, True),
        (FileIs(A, "fox"), {A: Entry("file", 0o644, content=None, size=9_000_000)}, False),
        (HasLine(A, "b"), {A: text_file("a\nb\nc\n")}, True),
        (HasLine(A, "b"), {A: text_file("abc\n")}, False),
        (NumberNear(A, 3, 0.0), {A: text_file(" 3 \n")}, True),
        (NumberNear(A, 3, 0.5), {A: text_file("3.4")}, True),
        (NumberNear(A, 3, 0.5), {A: text_file("3.6")}, False),
        (NumberNear(A, 3, 0.5), {A: text_file("three")}, False),
        (NumberNear(A, 3, 0.5), {A: text_file("nan")}, False),
        (Absent(A), {}, True),
        (Absent(A), {A: link("nowhere")}, False),
        (IsFolder(A), {A: folder()}, True),
        (IsFolder(A), {A: text_file("")}, False),
        (
            FolderHolds("/home/user/d", ("x",)),
            {"/home/user/d": folder(), "/home/user/d/x": folder(), "/home/user/d/x/y": folder()},
            True,
        ),
        (FolderHolds("/home/user/d", ("x",)), {"/home/user/d": folder()}, False),
        (HasMode(A, 0o600), {A: text_file("", 0o600)}, True),
        (HasMode(A, 0o600), {A: text_file("", 0o644)}, False),
        (LinkTo(A, "b.txt"), {A: link("b.txt")}, True),
        (LinkTo(A, "b.txt"), {A: link("/home/user/b.txt")}, True),
        (LinkTo(A, "b.txt"), {A: link("/etc/b.txt")}, False),
        (LinkTo(A, "b.txt"), {A: text_file("b.txt")}, False),
        (GzipOf(A, "fox\n"), {A: binary(gzip.compress(b"fox\n"))}, True),
        (GzipOf(A, "fox\n"), {A: binary(gzip.compress(b"fox\n")[:-6])}, False),
        (GzipOf(A, "fox\n"), {A: text_file("fox")}, False),
        (ArchiveHolds(A, "d/x", "fox"), {A: tar("d/x", "fox\n")}, True),
        (ArchiveHolds(A, "d/x", "fox"), {A: tar("./d/x", "fox\n")}, True),
        (ArchiveHolds(A, "d/x", "fox"), {A: tar("d/x", "fox\n", mode="w:gz")}, True),
        (
            ArchiveHolds(A, "d/x", "fox"),
            {A: tar("d/x", "", type=tarfile.SYMTYPE, linkname="/etc/passwd")},
            False,
        ),
        (ArchiveHolds(A, "d/x", "fox"), {A: zipped("d/x", "fox\n")}, True),
        (ArchiveHolds(A, "d/x", "fox"), {A: zipped("d/y", "fox\n")}, False),
        (ArchiveHolds(A, "d/x", "fox"), {A: binary(b"\x1f\x8bgarbage")}, False),
    ],
)
def test_checks_worked_by_hand(check, tree, holds):
    assert check.holds(tree, {}) is holds


def test_a_link_at_a_checked_path_or_above_it_is_never_followed():
    target = {"/home/user/real": folder(), "/home/user/real/a.txt": text_file("fox")}
    assert FileIs("/home/user/real/a.txt", "fox").holds(target, {})
    above = {**target, "/home/user/fake": link("real"), "/home/user/fake/a.txt": text_file("fox")}
    assert not FileIs("/home/user/fake/a.txt", "fox").holds(above, {})
    assert not FileIs(A, "fox").holds({A: link("/home/user/real/a.txt"), **target}, {})


def test_hard_links_share_their_count_and_content():
    both = dataclasses.replace(text_file("x"), links=2)
    assert HardLinked(A, "/home/user/b").holds({A: both, "/home/user/b": both}, {})
    assert not HardLinked(A, "/home/user/b").holds({A: text_file("x"), "/home/user/b": text_file("x")}, {})


def test_unchanged_compares_content_and_mode_with_the_start():
    start = {A: text_file("x")}
    assert Unchanged(A).holds({A: text_file("x")}, start)
    assert not Unchanged(A).holds({A: text_file("y")}, start)
    assert not Unchanged(A).holds({A: text_file("x", 0o600)}, start)
    assert not Unchanged(A).holds({}, start)


@given(st.sampled_from(sorted(checks.KINDS)), st.text(max_size=8), st.integers(0, 0o777))
def test_every_check_survives_json(kind, text, number):
    cls = checks.KINDS[kind]
    values = {"str": text, "float": float(number), "int": number, "tuple[str, ...]": (text, "z")}
    check = cls(*[values[str(field.type)] for field in dataclasses.fields(cls)])
    assert checks.from_json(check.to_json()) == check


@given(st.binary(max_size=300))
def test_hostile_archives_do_not_hold_and_do_not_raise(data):
    tree = {A: binary(data)}
    assert ArchiveHolds(A, "x", "y").holds(tree, {}) is False
    assert GzipOf(A, "y\x00unlikely").holds(tree, {}) is False
