"""A Dockerfile as instructions: continued lines joined, comments left out, here-documents taken along."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEREDOC = re.compile(r"(?<![<\w])<<(-?)[ \t]*(?:\"([\w.-]+)\"|'([\w.-]+)'|([A-Za-z_][\w.-]*))")


@dataclass(frozen=True, slots=True)
class Heredoc:
    name: str
    body: str
    quoted: bool
    strip: bool

    @property
    def content(self) -> str:
        return re.sub(r"^\t+", "", self.body, flags=re.MULTILINE) if self.strip else self.body


@dataclass(frozen=True, slots=True)
class Instruction:
    """``rest`` is the logical line without the name; ``raw`` has the here-documents too, as a shell would read them."""

    line: int
    name: str
    rest: str
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def raw(self) -> str:
        return self.rest + "\n" + "".join(f"{doc.body}{doc.name}\n" for doc in self.heredocs)


def instructions(text: str) -> list[Instruction]:
    """Split into logical lines, with the line at which each begins."""
    lines = text.replace("\r\n", "\n").split("\n")
    escape = "\\"
    found: list[Instruction] = []
    at = 0
    while at < len(lines):
        stripped = lines[at].strip()
        directive = re.match(r"#\s*escape\s*=\s*(.)$", stripped)
        if directive and not found:
            escape = directive[1]
        if not stripped or stripped.startswith("#"):
            at += 1
            continue
        start = at + 1
        logical = ""
        while at < len(lines):
            part = lines[at].rstrip() if logical else lines[at].strip()
            at += 1
            if logical and (not part.strip() or part.lstrip().startswith("#")):
                continue
            if part.endswith(escape):
                logical += part[: -len(escape)]
                continue
            logical += part
            break
        name, _, rest = logical.strip().partition(" ")
        name = name.upper()
        heredocs: list[Heredoc] = []
        if name in ("RUN", "COPY", "ADD"):
            at = _take_heredocs(rest, lines, at, heredocs)
        found.append(Instruction(start, name, rest.strip(), tuple(heredocs)))
    return found


def _take_heredocs(rest: str, lines: list[str], at: int, found: list[Heredoc]) -> int:
    """The line after the here-documents that ``rest`` announces; what is never closed is none."""
    for match in HEREDOC.finditer(rest):
        name = match[2] or match[3] or match[4]
        strip = bool(match[1])
        for end in range(at, len(lines)):
            if (lines[end].lstrip("\t") if strip else lines[end]) == name:
                body = "".join(line + "\n" for line in lines[at:end])
                found.append(Heredoc(name, body, match[4] is None, strip))
                at = end + 1
                break
    return at
