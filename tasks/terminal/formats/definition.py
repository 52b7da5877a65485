"""Apptainer definition files (``container.def``): the header, ``%post``, ``%environment``, ``%files``, ``%runscript``."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable

from tasks.terminal.filetree import FileTree
from tasks.terminal.formats.plan import BASE_PATH, BuildFileError, Plan, Step, check_base

_SECTION = re.compile(r"^%([A-Za-z]+)[ \t]*(.*)$")
_WITHOUT_EFFECT = ("runscript", "startscript", "labels", "help", "test")
_BOOTSTRAPS = ("localimage", "docker", "library", "oras")
HOME = "/home/user"

Copy = Callable[[str, str, str, int], FileTree]
"""``copy(source, destination, workdir, line)``: files of the context as they shall stand. Raises BuildFileError."""


def parse_definition(text: str, copy: Copy) -> Plan:
    """Raises BuildFileError with the line of what is not known."""
    header, sections = _split(text)
    base = _base(header)
    steps: list[Step] = []
    entry = ""
    for name, arguments, line, body in sections:
        if name == "post":
            steps.append(_post(arguments, line, body))
        elif name == "environment":
            entry += "\n".join(body) + "\n"
        elif name == "files":
            steps.extend(_files(arguments, line, body, copy))
        elif name not in _WITHOUT_EFFECT:
            raise BuildFileError(
                line,
                f"%{name} is not known; accepted: %post, %environment, %files, {', '.join('%' + n for n in _WITHOUT_EFFECT)}",
            )
    # Files are copied before %post runs, wherever the section stands.
    ordered = sorted(steps, key=lambda step: step.script is not None)
    return Plan(base, tuple(ordered), {"HOME": HOME}, HOME, entry)


def _split(text: str) -> tuple[list[tuple[int, str]], list[tuple[str, str, int, list[str]]]]:
    """Header lines with numbers, and sections: name, arguments, line, body lines."""
    header: list[tuple[int, str]] = []
    sections: list[tuple[str, str, int, list[str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _SECTION.match(line)
        if match:
            sections.append((match[1].lower(), match[2].strip(), number, []))
        elif sections:
            sections[-1][3].append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            header.append((number, line.strip()))
    return header, sections


def _base(header: list[tuple[int, str]]) -> str:
    values: dict[str, tuple[int, str]] = {}
    for number, line in header:
        key, colon, value = line.partition(":")
        if not colon or key.strip().lower() not in ("bootstrap", "from"):
            raise BuildFileError(number, f"header {line!r} is not known; accepted: Bootstrap and From")
        values[key.strip().lower()] = (number, value.strip())
    for key in ("bootstrap", "from"):
        if key not in values:
            raise BuildFileError(1, f"the header has no {key.capitalize()}; accepted: Bootstrap and From")
    number, bootstrap = values["bootstrap"]
    if bootstrap.lower() not in _BOOTSTRAPS:
        raise BuildFileError(
            number, f"Bootstrap: {bootstrap} is not known; accepted: {', '.join(_BOOTSTRAPS)}"
        )
    number, image = values["from"]
    return check_base(image, number)


def _post(arguments: str, line: int, body: list[str]) -> Step:
    shell = ("/bin/sh",)
    if arguments:
        words = shlex.split(arguments)
        if len(words) != 2 or words[0] != "-c":
            raise BuildFileError(line, f"%post {arguments} is not known; accepted: -c and a shell")
        shell = (words[1],)
    environment = {"PATH": BASE_PATH, "HOME": "/root", "LANG": "C.UTF-8"}
    # -v echoes each line as it is read: that is how the line of a failure can be told, whatever the shell.
    return Step(line, (*shell, "-ev"), "\n".join(body) + "\n", line + 1, environment)


def _files(arguments: str, line: int, body: list[str], copy: Copy) -> list[Step]:
    if arguments:
        raise BuildFileError(line, f"%files {arguments}: stages are not known; accepted: %files without them")
    steps = []
    for number, text in enumerate(body, line + 1):
        words = shlex.split(text, comments=True)
        if len(words) > 2:
            raise BuildFileError(number, f"%files: {text.strip()!r}; accepted: a source and a destination")
        if words:
            source = words[0]
            destination = words[1] if len(words) == 2 else posixpath.join("/", source)
            steps.append(Step(number, files=copy(source, destination, "/", number)))
    return steps
