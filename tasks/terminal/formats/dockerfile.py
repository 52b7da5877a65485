"""Dockerfiles: FROM, RUN, ENV, ARG, WORKDIR, USER, SHELL, COPY and ADD of local files, here-documents; one stage."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field

from tasks.terminal.filetree import Entry, text_file
from tasks.terminal.formats.context import Context
from tasks.terminal.formats.logical_lines import HEREDOC, Instruction, instructions
from tasks.terminal.formats.plan import BASE_PATH, BuildFileError, Plan, Step, check_base
from tasks.terminal.formats.words import expand, split_words

_WITHOUT_EFFECT = ("LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD")
_KNOWN = ("FROM", "ARG", "RUN", "ENV", "WORKDIR", "USER", "SHELL", "COPY", "ADD", "ENTRYPOINT")
_IDLE = re.compile(r"(?:/bin/|/usr/bin/)?(?:sh|bash|sleep|tail|tini)$")
_ARCHIVE = re.compile(r"\.(?:tar|tar\.gz|tgz|tar\.bz2|tbz2|tar\.xz|txz)$")
_ADDED = "/run/build/added"


@dataclass
class _State:
    context: Context
    base: str | None = None
    global_arguments: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    home: str = "/root"
    shell: tuple[str, ...] = ("/bin/sh",)
    steps: list[Step] = field(default_factory=list)
    folders: set[str] = field(default_factory=lambda: {"/"})

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": BASE_PATH, **self.arguments, **self.environment}

    def step(self, line: int, argv: tuple[str, ...], script: str | None) -> Step:
        environment = {"HOME": self.home, "LANG": "C.UTF-8", **self.variables}
        return Step(line, argv, script, None, environment, self.workdir)


def parse_dockerfile(text: str, context: Context) -> Plan:
    """Raises BuildFileError with the line of what is not known."""
    state = _State(context)
    for instruction in instructions(text):
        try:
            _interpret(instruction, state)
        except ValueError as error:
            raise BuildFileError(
                instruction.line, f"{instruction.name} {instruction.rest}: {error}"
            ) from None
    if state.base is None:
        raise BuildFileError(1, "there is no FROM; accepted: a Dockerfile with one")
    environment = {"HOME": state.home, **state.environment}
    return Plan(state.base, tuple(state.steps), environment, state.workdir)


def _interpret(instruction: Instruction, state: _State) -> None:
    name, line = instruction.name, instruction.line
    if name in _WITHOUT_EFFECT:
        return
    if name not in _KNOWN:
        raise BuildFileError(line, f"{name} is not known; accepted: {', '.join((*_KNOWN, *_WITHOUT_EFFECT))}")
    if state.base is None and name not in ("FROM", "ARG"):
        raise BuildFileError(line, f"{name} before FROM; accepted: FROM first")
    _INTERPRETERS[name](instruction, state)


def _from(instruction: Instruction, state: _State) -> None:
    if state.base is not None:
        raise BuildFileError(instruction.line, "a second FROM; accepted: one stage")
    words = split_words(instruction.rest, state.global_arguments)
    words = [word for word in words if not word.startswith("--platform=")]
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise BuildFileError(instruction.line, f"FROM {instruction.rest}; accepted: FROM image [AS name]")
    state.base = check_base(words[0], instruction.line)


def _argument(instruction: Instruction, state: _State) -> None:
    for word in split_words(instruction.rest, state.variables):
        name, equals, value = word.partition("=")
        if state.base is None:
            state.global_arguments[name] = value
        elif equals or name in state.global_arguments:
            state.arguments[name] = value if equals else state.global_arguments[name]


def _environment(instruction: Instruction, state: _State) -> None:
    first = instruction.rest.split(None, 1)
    if first and "=" not in first[0]:
        if len(first) != 2:
            raise BuildFileError(instruction.line, f"ENV {instruction.rest}; accepted: ENV NAME=value")
        state.environment[first[0]] = " ".join(split_words(first[1], state.variables))
        return
    variables = state.variables  # of before the instruction, for all of its words
    for word in split_words(instruction.rest, variables):
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise BuildFileError(instruction.line, f"ENV {word}; accepted: ENV NAME=value")
        state.environment[name] = value


def _workdir(instruction: Instruction, state: _State) -> None:
    folder = " ".join(split_words(instruction.rest, state.variables))
    state.workdir = posixpath.normpath(posixpath.join(state.workdir, folder))
    state.folders.add(state.workdir)
    if state.workdir != "/":
        state.steps.append(Step(instruction.line, ("/bin/mkdir", "-p", "--", state.workdir)))


def _user(instruction: Instruction, state: _State) -> None:
    user = expand(instruction.rest.strip(), state.variables).split(":")[0]
    state.home = "/root" if user in ("root", "0") else "/home/user" if user.isdigit() else f"/home/{user}"


def _shell(instruction: Instruction, state: _State) -> None:
    words = _json_words(instruction.rest)
    if words is None or len(words) < 2 or words[-1] not in ("-c", "-lc", "-ec", "-ce"):
        raise BuildFileError(
            instruction.line, f'SHELL {instruction.rest}; accepted: ["/bin/bash", ..., "-c"]'
        )
    options = words[-1].replace("c", "")
    state.shell = (*words[:-1], *((options,) if options != "-" else ()))


def _run(instruction: Instruction, state: _State) -> None:
    rest = _without_flags(instruction, ("--mount=type=cache", "--network=none", "--network=default"))
    words = _json_words(rest)
    if words is not None:
        state.steps.append(state.step(instruction.line, tuple(words), None))
        return
    only = HEREDOC.fullmatch(rest)
    if only and len(instruction.heredocs) == 1:
        script = instruction.heredocs[0].content
        shebang = re.match(r"#!\s*(\S+)[ \t]*(\S.*)?\n", script)
        argv = tuple(word for word in shebang.groups() if word) if shebang else state.shell
        state.steps.append(state.step(instruction.line, argv, script))
        return
    script = Instruction(instruction.line, "RUN", rest, instruction.heredocs).raw
    state.steps.append(state.step(instruction.line, state.shell, script))


def _copy(instruction: Instruction, state: _State) -> None:
    mode: int | None = None

    def flag(name: str, value: str) -> bool:
        nonlocal mode
        if name == "--chmod" and re.fullmatch("[0-7]{3,4}", value):
            mode = int(value, 8)
            return True
        return name in ("--chown", "--link")

    rest = _without_flags(instruction, (), flag)
    words = _json_words(rest) or split_words(rest, state.variables)
    if len(words) < 2:
        raise BuildFileError(
            instruction.line, f"{instruction.name} {rest}; accepted: sources and a destination"
        )
    *sources, destination = words
    ends_as_folder = destination.endswith("/") or destination.split("/")[-1] in (".", "..")
    destination = posixpath.normpath(posixpath.join(state.workdir, destination))
    if ends_as_folder or destination in state.folders:
        destination = destination.rstrip("/") + "/"
    remote = [s for s in sources if re.match(r"(?:\w+://|git@)", s)]
    if remote:
        raise BuildFileError(
            instruction.line, f"{instruction.name} {remote[0]} needs the network; accepted: local files"
        )
    documents = {doc.name: doc for doc in instruction.heredocs}
    plain = [
        s for s in sources if s.removeprefix("<<").lstrip("-") not in documents or not s.startswith("<<")
    ]
    tree: dict[str, Entry] = {}
    archives: list[tuple[str, str]] = []
    if instruction.name == "ADD":
        for number, source in enumerate([s for s in plain if _ARCHIVE.search(s)]):
            plain.remove(source)
            place = f"{_ADDED}/{instruction.line}-{number}"
            tree |= state.context.copy(source, place, "/", instruction.line)
            archives.append((place, destination))
    if plain:
        tree |= state.context.copy_all(plain, destination, state.workdir, instruction.line)
    for doc in documents.values():
        content = doc.content if doc.quoted else expand(doc.content, state.variables)
        name = posixpath.join(destination, doc.name) if destination.endswith("/") else destination
        tree[posixpath.normpath(name)] = text_file(content)
    if mode is not None:
        tree = {
            path: Entry(entry.kind, mode, entry.content, entry.target, entry.size)
            if entry.kind != "link"
            else entry
            for path, entry in tree.items()
        }
    state.folders |= {path for path, entry in tree.items() if entry.kind == "dir"}
    state.steps.append(Step(instruction.line, files=tree, archives=tuple(archives)))


def _entrypoint(instruction: Instruction, state: _State) -> None:
    words = _json_words(instruction.rest) or instruction.rest.split()
    if words and not _IDLE.match(words[0]):
        raise BuildFileError(
            instruction.line, f"ENTRYPOINT {instruction.rest} would start a service; accepted: a shell"
        )


def _without_flags(instruction: Instruction, accepted: tuple[str, ...], flag: object = None) -> str:
    """The rest after leading ``--flags``. Raises BuildFileError for one that is not accepted."""
    rest = instruction.rest
    while match := re.match(r"(--[a-z-]+)(?:=(\S*))?\s+", rest):
        known = match[0].startswith(accepted) if accepted else False
        if not known and not (callable(flag) and flag(match[1], match[2] or "")):
            raise BuildFileError(
                instruction.line, f"{instruction.name} {match[0].strip()} is not known; accepted: none of it"
            )
        rest = rest[match.end() :]
    return rest


def _json_words(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        words = json.loads(text)
    except json.JSONDecodeError:
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


_INTERPRETERS = {
    "FROM": _from,
    "ARG": _argument,
    "RUN": _run,
    "ENV": _environment,
    "WORKDIR": _workdir,
    "USER": _user,
    "SHELL": _shell,
    "COPY": _copy,
    "ADD": _copy,
    "ENTRYPOINT": _entrypoint,
}
