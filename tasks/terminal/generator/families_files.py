"""Families about files themselves: copying, moving, folders, permissions, links, archives."""

from __future__ import annotations

from tasks.terminal.checks import (
    Absent,
    ArchiveHolds,
    FileIs,
    FolderHolds,
    GzipOf,
    HardLinked,
    HasMode,
    IsFolder,
    LinkTo,
    Unchanged,
)
from tasks.terminal.filetree import folder
from tasks.terminal.generator.archives import tar_of
from tasks.terminal.generator.draw import Draw, at, holding, lines
from tasks.terminal.task import Part


def copy_file(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(1)
    say = d.pick([f"copy {name} to {to}", f"make a copy of {name} named {to}"])
    return Part(
        "copy_file",
        say,
        holding(name, content),
        (f"cp {name} {to}",),
        ((f"mv {name} {to}",), (f"cp {to} {name}",)),
        (FileIs(at(to), lines(content)), Unchanged(at(name))),
        others=((f"cat {name} > {to}",),),
    )


def move_file(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(1)
    say = d.pick([f"rename {name} to {to}", f"move {name} to {to}"])
    return Part(
        "move_file",
        say,
        holding(name, content),
        (f"mv {name} {to}",),
        ((f"cp {name} {to}",), (f"mv {to} {name}",)),
        (FileIs(at(to), lines(content)), Absent(at(name))),
        others=((f"cp {name} {to} && rm {name}",),),
    )


def remove_file(d: Draw) -> Part:
    gone, kept = d.file(), d.file()
    say = d.pick([f"delete {gone}", f"remove the file {gone}"])
    return Part(
        "remove_file",
        say,
        {**holding(gone, d.some(1)), **holding(kept, d.some(1))},
        (f"rm {gone}",),
        ((f"touch {gone}",), (f"rm {kept}",)),
        (Absent(at(gone)), Unchanged(at(kept))),
        others=((f"rm -f {gone}",),),
    )


def make_folders(d: Draw) -> Part:
    outer, inner = d.some(2)
    say = d.pick([f"create the folder {inner} inside {outer}", f"make the folders {outer}/{inner}"])
    return Part(
        "make_folders",
        say,
        {},
        (f"mkdir -p {outer}/{inner}",),
        ((f"mkdir {outer}/{inner}",), (f"mkdir -p {inner}/{outer}",)),
        (IsFolder(at(f"{outer}/{inner}")),),
        others=((f"mkdir {outer}", f"mkdir {outer}/{inner}"),),
    )


def move_into(d: Draw) -> Part:
    name, to, content = d.file(), d.word(), d.some(1)
    say = d.pick([f"move {name} into the folder {to}", f"put the file {name} into folder {to}"])
    return Part(
        "move_into",
        say,
        {**holding(name, content), at(to): folder()},
        (f"mv {name} {to}/",),
        ((f"cp {name} {to}/",), (f"mv {to} {name}",)),
        (FileIs(at(f"{to}/{name}"), lines(content)), Absent(at(name))),
    )


def new_home(d: Draw) -> Part:
    name, to, content = d.file(), d.word(), d.some(1)
    say = d.pick(
        [f"make a folder {to} and move {name} into it", f"create {to} and put {name} in that folder"]
    )
    return Part(
        "new_home",
        say,
        holding(name, content),
        (f"mkdir {to}", f"mv {name} {to}/"),
        ((f"mv {name} {to}",), (f"mkdir {to}", f"cp {name} {to}/")),
        (FileIs(at(f"{to}/{name}"), lines(content)), Absent(at(name))),
    )


def set_mode(d: Draw) -> Part:
    name, content = d.file(), d.some(1)
    mode = d.pick(["600", "640", "400", "660"])
    say = d.pick([f"set the mode of {name} to {mode}", f"change permissions of {name} to {mode}"])
    wrong = {"600": "660", "640": "600", "400": "640", "660": "640"}[mode]
    return Part(
        "set_mode",
        say,
        holding(name, content),
        (f"chmod {mode} {name}",),
        ((f"chmod {wrong} {name}",), (f"chown {mode} {name}",)),
        (HasMode(at(name), int(mode, 8)), FileIs(at(name), lines(content))),
    )


def make_executable(d: Draw) -> Part:
    name, content = d.file("sh"), [f"echo {d.word()}"]
    say = d.pick([f"make {name} executable", f"allow everyone to run {name}"])
    return Part(
        "make_executable",
        say,
        holding(name, content),
        (f"chmod +x {name}",),
        ((f"chmod -x {name}",), (f"bash {name}",)),
        (HasMode(at(name), 0o755), FileIs(at(name), lines(content))),
        others=((f"chmod 755 {name}",),),
    )


def symbolic_link(d: Draw) -> Part:
    target, name = d.file(), d.file()
    say = d.pick(
        [f"create a symbolic link {name} to {target}", f"make {name} a symlink that points to {target}"]
    )
    return Part(
        "symbolic_link",
        say,
        holding(target, d.some(1)),
        (f"ln -s {target} {name}",),
        ((f"ln {target} {name}",), (f"ln -s {name} {target}",)),
        (LinkTo(at(name), target), Unchanged(at(target))),
    )


def hard_link(d: Draw) -> Part:
    target, name = d.file(), d.file()
    say = d.pick(
        [f"create a hard link {name} to {target}", f"give {target} the second name {name} by a hard link"]
    )
    return Part(
        "hard_link",
        say,
        holding(target, d.some(1)),
        (f"ln {target} {name}",),
        ((f"ln -s {target} {name}",), (f"cp {target} {name}",)),
        (HardLinked(at(name), at(target)), Unchanged(at(target))),
    )


def pack_folder(d: Draw) -> Part:
    name, inside, archive, content = d.word(), d.file(), d.file("tar"), d.some(1)
    say = d.pick([f"pack the folder {name} into {archive}", f"make the archive {archive} of folder {name}"])
    return Part(
        "pack_folder",
        say,
        {at(name): folder(), **holding(f"{name}/{inside}", content)},
        (f"tar -cf {archive} {name}",),
        ((f"tar -xf {archive} {name}",), (f"cp -r {name} {archive}",)),
        (
            ArchiveHolds(at(archive), f"{name}/{inside}", lines(content)),
            FileIs(at(f"{name}/{inside}"), lines(content)),
        ),
    )


def unpack_archive(d: Draw) -> Part:
    archive, inside, content = d.file("tar"), d.file(), d.some(2)
    say = d.pick([f"unpack {archive}", f"extract the archive {archive} here"])
    return Part(
        "unpack_archive",
        say,
        {at(archive): tar_of({inside: lines(content)})},
        (f"tar -xf {archive}",),
        ((f"tar -tf {archive}",), (f"tar -cf {archive} {inside}",)),
        (FileIs(at(inside), lines(content)), Unchanged(at(archive))),
    )


def compress_file(d: Draw) -> Part:
    name, content = d.file(), d.some(2)
    say = d.pick([f"compress {name} with gzip", f"gzip the file {name}"])
    return Part(
        "compress_file",
        say,
        holding(name, content),
        (f"gzip {name}",),
        ((f"tar -cf {name}.gz {name}",), (f"gzip -k {name}",)),
        (GzipOf(at(f"{name}.gz"), lines(content)), Absent(at(name))),
    )


def copy_folder(d: Draw) -> Part:
    """Held-out family: a whole folder."""
    name, to, inside, content = d.word(), d.word(), d.file(), d.some(1)
    say = d.pick([f"copy the folder {name} to {to}", f"make a copy of folder {name} named {to}"])
    return Part(
        "copy_folder",
        say,
        {at(name): folder(), **holding(f"{name}/{inside}", content)},
        (f"cp -r {name} {to}",),
        ((f"cp {name} {to}",), (f"mv {name} {to}",)),
        (FileIs(at(f"{to}/{inside}"), lines(content)), FolderHolds(at(name), (inside,))),
    )


def remove_folder(d: Draw) -> Part:
    """Held-out family: a folder with something in it."""
    name, inside, kept = d.word(), d.file(), d.file()
    say = d.pick([f"delete the folder {name} with everything in it", f"remove folder {name}"])
    return Part(
        "remove_folder",
        say,
        {at(name): folder(), **holding(f"{name}/{inside}", d.some(1)), **holding(kept, d.some(1))},
        (f"rm -r {name}",),
        ((f"rm {name}",), (f"rmdir {name}",)),
        (Absent(at(name)), Unchanged(at(kept))),
        others=((f"rm -rf {name}",),),
    )


TRAINING = (
    copy_file,
    move_file,
    remove_file,
    make_folders,
    move_into,
    new_home,
    set_mode,
    make_executable,
    symbolic_link,
    hard_link,
    pack_folder,
    unpack_archive,
    compress_file,
)
HELD_OUT = (copy_folder, remove_folder)
