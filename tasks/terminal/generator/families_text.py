"""Families about the content of files: writing, appending, selecting, replacing, joining."""

from __future__ import annotations

from tasks.terminal.checks import FileIs, HasLine, Unchanged
from tasks.terminal.generator.draw import Draw, at, holding, lines
from tasks.terminal.task import Part


def write_word(d: Draw) -> Part:
    word, name = d.word(), d.file()
    say = d.pick([f"write the word {word} to {name}", f"create {name} with the word {word}"])
    return Part(
        "write_word",
        say,
        {},
        (f"echo {word} > {name}",),
        ((f"touch {name}",), (f"echo {name} > {word}",)),
        (FileIs(at(name), word),),
        others=((f"printf '%s\\n' {word} > {name}",),),
    )


def append_word(d: Draw) -> Part:
    word, name, old = d.word(), d.file(), d.some(2)
    say = d.pick([f"append the word {word} to {name}", f"add a last line {word} to {name}"])
    return Part(
        "append_word",
        say,
        holding(name, old),
        (f"echo {word} >> {name}",),
        ((f"echo {word} > {name}",), (f"echo {name} >> {word}",)),
        (FileIs(at(name), lines([*old, word])),),
        others=((f"sed -i '$a {word}' {name}",),),
    )


def replace_word(d: Draw) -> Part:
    name, old, new, rest = d.file(), d.word(), d.word(), d.word()
    content = d.shuffled([old, rest, old])
    say = d.pick([f"replace {old} by {new} in {name}", f"in {name} change every {old} to {new}"])
    return Part(
        "replace_word",
        say,
        holding(name, content),
        (f"sed -i s/{old}/{new}/ {name}",),
        ((f"sed s/{old}/{new}/ {name}",), (f"sed -i s/{new}/{old}/ {name}",)),
        (FileIs(at(name), lines([new if line == old else line for line in content])),),
    )


def delete_line(d: Draw) -> Part:
    name, gone, kept = d.file(), d.word(), d.some(2)
    content = d.shuffled([gone, *kept])
    say = d.pick([f"delete the line {gone} from {name}", f"remove {gone} from the lines of {name}"])
    return Part(
        "delete_line",
        say,
        holding(name, content),
        (f"sed -i /{gone}/d {name}",),
        ((f"sed /{gone}/d {name}",), (f"rm {name}",)),
        (FileIs(at(name), lines([line for line in content if line != gone])),),
    )


def sort_file(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(3)
    if content == sorted(content):
        content.reverse()
    say = d.pick([f"sort the lines of {name} into {to}", f"write the sorted lines of {name} to {to}"])
    return Part(
        "sort_file",
        say,
        holding(name, content),
        (f"sort {name} > {to}",),
        ((f"cat {name} > {to}",), (f"sort {name}",)),
        (FileIs(at(to), lines(sorted(content))), Unchanged(at(name))),
        others=((f"cat {name} | sort > {to}",),),
    )


def unique_lines(d: Draw) -> Part:
    name, to, pair = d.file(), d.file(), d.some(2)
    content = d.shuffled([pair[0], pair[1], pair[0]])
    say = d.pick(
        [f"write the sorted unique lines of {name} to {to}", f"sort {name} without repeats into {to}"]
    )
    return Part(
        "unique_lines",
        say,
        holding(name, content),
        (f"sort -u {name} > {to}",),
        ((f"sort {name} > {to}",), (f"sort -u {name}",)),
        (FileIs(at(to), lines(sorted(pair))),),
        others=((f"sort {name} | uniq > {to}",),),
    )


def reverse_lines(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(3)
    if content == sorted(content):
        content[0], content[1] = content[1], content[0]
    say = d.pick(
        [f"write the lines of {name} in reverse order to {to}", f"reverse the line order of {name} into {to}"]
    )
    return Part(
        "reverse_lines",
        say,
        holding(name, content),
        (f"tac {name} > {to}",),
        ((f"sort -r {name} > {to}",), (f"cat {name} > {to}",)),
        (FileIs(at(to), lines(content[::-1])),),
    )


def first_lines(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(5)
    count = d.number(2, 3)
    say = d.pick(
        [f"copy the first {count} lines of {name} to {to}", f"put the top {count} lines of {name} into {to}"]
    )
    return Part(
        "first_lines",
        say,
        holding(name, content),
        (f"head -n {count} {name} > {to}",),
        ((f"tail -n {count} {name} > {to}",), (f"head -n {count} {name}",)),
        (FileIs(at(to), lines(content[:count])),),
    )


def last_lines(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(5)
    count = d.number(2, 3)
    say = d.pick(
        [
            f"copy the last {count} lines of {name} to {to}",
            f"put the bottom {count} lines of {name} into {to}",
        ]
    )
    return Part(
        "last_lines",
        say,
        holding(name, content),
        (f"tail -n {count} {name} > {to}",),
        ((f"head -n {count} {name} > {to}",), (f"tail -n {count} {name}",)),
        (FileIs(at(to), lines(content[-count:])),),
    )


def matching_lines(d: Draw) -> Part:
    name, to, wanted = d.file(), d.file(), d.word()
    kept = [f"{wanted} {d.number(10, 99)}" for _ in range(2)]
    content = d.shuffled([*kept, f"{d.word()} {d.number(10, 99)}"])
    say = d.pick(
        [f"copy the lines with {wanted} from {name} to {to}", f"put every {wanted} line of {name} into {to}"]
    )
    return Part(
        "matching_lines",
        say,
        holding(name, content),
        (f"grep {wanted} {name} > {to}",),
        ((f"grep -v {wanted} {name} > {to}",), (f"grep {wanted} {name}",)),
        (FileIs(at(to), lines([line for line in content if wanted in line])),),
    )


def join_files(d: Draw) -> Part:
    one, two, to = d.file(), d.file(), d.file()
    a, b = d.some(2), d.some(1)
    say = d.pick([f"join {one} and {two} into {to}", f"write {one} followed by {two} to {to}"])
    return Part(
        "join_files",
        say,
        {**holding(one, a), **holding(two, b)},
        (f"cat {one} {two} > {to}",),
        ((f"cat {two} {one} > {to}",), (f"cat {one} > {to}",)),
        (FileIs(at(to), lines([*a, *b])),),
    )


def upper_case(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(2)
    say = d.pick([f"write {name} in upper case to {to}", f"put the capitals of {name} into {to}"])
    return Part(
        "upper_case",
        say,
        holding(name, content),
        (f"tr a-z A-Z < {name} > {to}",),
        ((f"tr A-Z a-z < {name} > {to}",), (f"tr a-z A-Z < {name}",)),
        (FileIs(at(to), lines(content).upper()),),
    )


def cut_column(d: Draw) -> Part:
    name, to = d.file("csv"), d.file()
    rows = [(d.word(), str(number)) for number in d.numbers(3)]
    column = d.number(1, 2)
    say = d.pick([f"copy column {column} of {name} to {to}", f"put field {column} of {name} into {to}"])
    return Part(
        "cut_column",
        say,
        holding(name, [",".join(row) for row in rows]),
        (f"cut -d, -f{column} {name} > {to}",),
        ((f"cut -d, -f{3 - column} {name} > {to}",), (f"cut -f{column} {name} > {to}",)),
        (FileIs(at(to), lines([row[column - 1] for row in rows])),),
    )


def set_config(d: Draw) -> Part:
    name, key, other = d.file("conf"), d.word(), d.word()
    old, new, rest = d.numbers(3)
    content = d.shuffled([f"{key}={old}", f"{other}={rest}"])
    say = d.pick([f"set {key} to {new} in {name}", f"change the value of {key} in {name} to {new}"])
    return Part(
        "set_config",
        say,
        holding(name, content),
        (f"sed -i s/{key}=.*/{key}={new}/ {name}",),
        ((f"echo {key}={new} > {name}",), (f"echo {key}={new} >> {name}",)),
        (
            FileIs(at(name), lines([f"{key}={new}" if line.startswith(key) else line for line in content])),
            HasLine(at(name), f"{other}={rest}"),
        ),
    )


def rotate_log(d: Draw) -> Part:
    name, old = d.file("log"), d.some(2)
    say = d.pick(
        [
            f"rename {name} to {name}.old and make a new empty {name}",
            f"rotate {name} to {name}.old, leaving {name} empty",
        ]
    )
    return Part(
        "rotate_log",
        say,
        holding(name, old),
        (f"mv {name} {name}.old", f"touch {name}"),
        ((f"cp {name} {name}.old", f"touch {name}"), (f"mv {name} {name}.old",)),
        (FileIs(at(f"{name}.old"), lines(old)), FileIs(at(name), "")),
    )


def insert_first(d: Draw) -> Part:
    """Held-out family: a new first line."""
    name, word, old = d.file(), d.word(), d.some(2)
    say = d.pick([f"insert {word} as the first line of {name}", f"put {word} before the lines of {name}"])
    return Part(
        "insert_first",
        say,
        holding(name, old),
        (f"sed -i '1i {word}' {name}",),
        ((f"echo {word} >> {name}",), (f"echo {word} > {name}",)),
        (FileIs(at(name), lines([word, *old])),),
    )


def empty_file(d: Draw) -> Part:
    """Held-out family: no content, but still there."""
    name, old = d.file(), d.some(2)
    say = d.pick([f"empty the file {name} but keep it", f"remove all lines of {name}"])
    return Part(
        "empty_file",
        say,
        holding(name, old),
        (f": > {name}",),
        ((f"rm {name}",), (f"touch {name}",)),
        (FileIs(at(name), ""),),
        others=((f"truncate -s 0 {name}",),),
    )


def drop_matching(d: Draw) -> Part:
    """Held-out family: the lines that do not match."""
    name, to, gone = d.file(), d.file(), d.word()
    content = d.shuffled([gone, *d.some(2)])
    say = d.pick(
        [
            f"copy the lines without {gone} from {name} to {to}",
            f"put all but the {gone} line of {name} into {to}",
        ]
    )
    return Part(
        "drop_matching",
        say,
        holding(name, content),
        (f"grep -v {gone} {name} > {to}",),
        ((f"grep {gone} {name} > {to}",), (f"grep -v {gone} {name}",)),
        (FileIs(at(to), lines([line for line in content if line != gone])), Unchanged(at(name))),
    )


TRAINING = (
    write_word,
    append_word,
    replace_word,
    delete_line,
    sort_file,
    unique_lines,
    reverse_lines,
    first_lines,
    last_lines,
    matching_lines,
    join_files,
    upper_case,
    cut_column,
    set_config,
    rotate_log,
)
HELD_OUT = (insert_first, empty_file, drop_matching)
