"""Families that need a value which only an earlier command's output shows: look first, then act on what was seen."""

from __future__ import annotations

from tasks.terminal.checks import Absent, FileIs, IsFolder, NumberNear, Unchanged
from tasks.terminal.filetree import Entry, folder, link
from tasks.terminal.generator.archives import tar_of
from tasks.terminal.generator.draw import Draw, at, holding, lines
from tasks.terminal.task import Part


def folder_named_in(d: Draw) -> Part:
    name, word, guess = d.file(), d.word(), d.word()
    say = d.pick(
        [f"create a folder named by the word in {name}", f"make a folder with the name that {name} holds"]
    )
    return Part(
        "folder_named_in",
        say,
        holding(name, [word]),
        (f"cat {name}", f"mkdir {word}"),
        ((f"mkdir {name.split('.')[0]}",), (f"cat {name}", f"touch {word}"), (f"mkdir {guess}",)),
        (IsFolder(at(word)),),
        others=((f"mkdir $(cat {name})",),),
    )


def rename_as_told(d: Draw) -> Part:
    name, old, word, content = d.file(), d.file(), d.word(), d.some(1)
    say = d.pick([f"rename {old} to the word in {name}", f"give {old} the name that {name} holds"])
    return Part(
        "rename_as_told",
        say,
        {**holding(name, [word]), **holding(old, content)},
        (f"cat {name}", f"mv {old} {word}"),
        ((f"mv {old} {name}",), (f"cat {name}", f"cp {old} {word}")),
        (FileIs(at(word), lines(content)), Absent(at(old))),
    )


def delete_as_told(d: Draw) -> Part:
    name, gone, kept = d.file(), d.file(), d.file()
    say = d.pick([f"delete the file that {name} names", f"remove the file named in {name}"])
    return Part(
        "delete_as_told",
        say,
        {**holding(name, [gone]), **holding(gone, d.some(1)), **holding(kept, d.some(1))},
        (f"cat {name}", f"rm {gone}"),
        ((f"rm {name}",), (f"cat {name}", f"rm {name}")),
        (Absent(at(gone)), Unchanged(at(kept)), Unchanged(at(name))),
    )


def _told(
    family: str,
    say: str,
    files: dict[str, Entry],
    look: str,
    value: str,
    to: str,
    wrong: tuple[tuple[str, ...], ...],
) -> Part:
    """Look, then write what was seen to ``to``."""
    return Part(family, say, files, (look, f"echo {value} > {to}"), wrong, (FileIs(at(to), value),))


def second_line(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(3)
    say = d.pick([f"write the second line of {name} to {to}", f"put line 2 of {name} into {to}"])
    look = f"sed -n 2p {name}"
    return _told(
        "second_line",
        say,
        holding(name, content),
        look,
        content[1],
        to,
        ((f"head -n 1 {name}", f"echo {content[0]} > {to}"), (look, f"echo {content[1]} > {name}")),
    )


def last_word(d: Draw) -> Part:
    name, to, content = d.file(), d.file(), d.some(3)
    say = d.pick([f"write the last line of {name} to {to}", f"put the final line of {name} into {to}"])
    look = f"tail -n 1 {name}"
    return _told(
        "last_word",
        say,
        holding(name, content),
        look,
        content[-1],
        to,
        ((f"head -n 1 {name}", f"echo {content[0]} > {to}"), (look, f"echo {to} > {content[-1]}")),
    )


def count_lines(d: Draw) -> Part:
    name, to = d.file(), d.file()
    count = d.number(2, 6)
    say = d.pick([f"write the number of lines of {name} to {to}", f"count the lines of {name} into {to}"])
    return Part(
        "count_lines",
        say,
        holding(name, d.some(count)),
        (f"wc -l < {name}", f"echo {count} > {to}"),
        ((f"wc -l < {name}", f"echo {count + 1} > {to}"), (f"wc -c < {name} > {to}",)),
        (NumberNear(at(to), count, 0.0),),
        others=((f"wc -l < {name} > {to}",),),
    )


def largest_number(d: Draw) -> Part:
    name, to = d.file(), d.file()
    numbers = d.numbers(4)
    say = d.pick([f"write the largest number of {name} to {to}", f"put the maximum of {name} into {to}"])
    if numbers[-1] == max(numbers):
        numbers.reverse()
    return Part(
        "largest_number",
        say,
        holding(name, numbers),
        (f"sort -n {name} | tail -n 1", f"echo {max(numbers)} > {to}"),
        (
            (f"sort -n {name} | head -n 1", f"echo {min(numbers)} > {to}"),
            (f"tail -n 1 {name}", f"echo {numbers[-1]} > {to}"),
        ),
        (NumberNear(at(to), max(numbers), 0.0),),
    )


def look_up(d: Draw) -> Part:
    name, to = d.file("csv"), d.file()
    rows = [(d.word(), number) for number in d.numbers(3)]
    key, value = rows[d.number(0, 2)]
    other = next(number for word, number in rows if word != key)
    say = d.pick(
        [
            f"write the number of {key} in {name} to {to}",
            f"look up {key} in {name} and put its number into {to}",
        ]
    )
    look = f"grep {key} {name}"
    return _told(
        "look_up",
        say,
        holding(name, [f"{word},{number}" for word, number in rows]),
        look,
        str(value),
        to,
        ((look, f"echo {key} > {to}"), (f"cat {name}", f"echo {other} > {to}")),
    )


def only_file(d: Draw) -> Part:
    where, inside, to = d.word(), d.file(), d.file()
    say = d.pick(
        [
            f"write the name of the file in folder {where} to {to}",
            f"put the name of what is in {where} into {to}",
        ]
    )
    return _told(
        "only_file",
        say,
        {at(where): folder(), **holding(f"{where}/{inside}", d.some(1))},
        f"ls {where}",
        inside,
        to,
        ((f"ls {where}", f"echo {where} > {to}"), (f"ls {where}", f"echo {to} > {inside}")),
    )


def target_of(d: Draw) -> Part:
    name, target, to = d.file(), d.file(), d.file()
    say = d.pick(
        [f"write the target of the link {name} to {to}", f"put where the link {name} points into {to}"]
    )
    return _told(
        "target_of",
        say,
        {**holding(target, d.some(1)), at(name): link(target)},
        f"readlink {name}",
        target,
        to,
        ((f"readlink {name}", f"echo {name} > {to}"), (f"cat {name} > {to}",)),
    )


def mode_of(d: Draw) -> Part:
    name, to = d.file(), d.file()
    mode = d.pick(["600", "640", "444", "755"])
    wrong = d.pick([m for m in ("600", "640", "444", "755") if m != mode])
    say = d.pick([f"write the mode of {name} to {to}", f"put the octal permissions of {name} into {to}"])
    return _told(
        "mode_of",
        say,
        holding(name, d.some(1), int(mode, 8)),
        f"stat -c %a {name}",
        mode,
        to,
        ((f"stat -c %a {name}", f"echo {wrong} > {to}"), (f"ls -l {name} > {to}",)),
    )


def member_of(d: Draw) -> Part:
    archive, inside, to = d.file("tar"), d.file(), d.file()
    say = d.pick(
        [
            f"write the name of the file in {archive} to {to}",
            f"put the name of the member of {archive} into {to}",
        ]
    )
    return _told(
        "member_of",
        say,
        {at(archive): tar_of({inside: lines(d.some(1))})},
        f"tar -tf {archive}",
        inside,
        to,
        ((f"tar -tf {archive}", f"echo {archive} > {to}"), (f"tar -xf {archive}",)),
    )


def holder_of(d: Draw) -> Part:
    one, two, to, word = d.file(), d.file(), d.file(), d.word()
    names = d.shuffled([one, two])
    say = d.pick(
        [
            f"write which of {names[0]} and {names[1]} has {word} to {to}",
            f"find {word} in {names[0]} or {names[1]} and put the file name into {to}",
        ]
    )
    return _told(
        "holder_of",
        say,
        {**holding(one, [word]), **holding(two, d.some(1))},
        f"grep -l {word} {names[0]} {names[1]}",
        one,
        to,
        ((f"grep -l {word} {names[0]} {names[1]}", f"echo {two} > {to}"), (f"echo {word} > {to}",)),
    )


def count_words(d: Draw) -> Part:
    """Held-out family: words instead of lines."""
    name, to = d.file(), d.file()
    rows = [" ".join(d.some(2)) for _ in range(d.number(2, 3))]
    count = 2 * len(rows)
    say = d.pick([f"write the number of words of {name} to {to}", f"count the words of {name} into {to}"])
    return Part(
        "count_words",
        say,
        holding(name, rows),
        (f"wc -w < {name}", f"echo {count} > {to}"),
        ((f"wc -l < {name}", f"echo {len(rows)} > {to}"), (f"wc -w {name} > {to}",)),
        (NumberNear(at(to), count, 0.0),),
        others=((f"wc -w < {name} > {to}",),),
    )


TRAINING = (
    folder_named_in,
    rename_as_told,
    delete_as_told,
    second_line,
    last_word,
    count_lines,
    largest_number,
    look_up,
    only_file,
    target_of,
    mode_of,
    member_of,
    holder_of,
)
HELD_OUT = (count_words,)
