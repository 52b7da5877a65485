"""What a build does, whichever file it was read from: steps in order, and the machine's state for the agent's shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.terminal.filetree import FileTree
from tasks.terminal.sandbox.protocol import FIRST_ENVIRONMENT

BASE_PATH = FIRST_ENVIRONMENT["PATH"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: write ``files``, unpack ``archives`` (path of an archive among the files -> folder), run ``script``.

    line: where it begins in the build file. script_line: the line of the script's first line, where lines can be told.
    argv: the shell and its options, the script's path is added; where ``script`` is None, a command of its own, or nothing.
    environment, workdir: of the script.
    """

    line: int
    argv: tuple[str, ...] = ()
    script: str | None = None
    script_line: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    files: FileTree = field(default_factory=dict)
    archives: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """``base``: the image asked for; every base that is accepted stands for the one base root file system.

    environment: variables that the agent's shell starts with. workdir: its folder. entry: shell lines that it runs first.
    """

    base: str
    steps: tuple[Step, ...]
    environment: Mapping[str, str]
    workdir: str
    entry: str = ""


class BuildFileError(Exception):
    """An instruction that is not known, or cannot be had here. ``line`` of the build file, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line}: {reason}")


_BASES = ("ubuntu", "debian", "python", "buildpack-deps")


def check_base(image: str, line: int) -> str:
    """An image stands for the base when its name says Debian, Ubuntu or Python on either. Raises BuildFileError."""
    name = image.rsplit("/", 1)[-1].split("@")[0].removesuffix(".sif").lower()
    repository, _, tag = name.partition(":")
    if repository.startswith(_BASES) and "alpine" not in tag and "windows" not in tag:
        return image
    raise BuildFileError(
        line, f"the base {image} needs the network; accepted: images of {', '.join(_BASES)} (not alpine)"
    )
