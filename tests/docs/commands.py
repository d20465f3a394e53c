"""The commands that pages show: where each stands, and what has it run."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("bench/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
)
PROGRAMS = (
    "spanscore",
    "make",
    "pip",
    "python",
    "pytest",
    ".venv/bin/python",
    ".venv/bin/pytest",
    "grpcurl",
    "curl",
    "otelcol-contrib",
    "export",
)

_FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)((?:    [^\n]+\n)+)")
_COMMENT = re.compile(r"(?:^|\s+)#(?: .*)?$")
_FILE = re.compile(r"# (\.?[\w/.-]+\.\w+)\n")
_INLINE = re.compile(r"`(spanscore [a-z][^`|]+)`")


class Block(NamedTuple):
    """Some lines of code of a page: its name, the language that it is marked with, the text."""

    page: str
    language: str
    text: str

    @property
    def id(self) -> str:
        """What a test of it is called by."""
        return f"{self.page}: {self.text.strip().splitlines()[0].strip()[:60]}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is, which is its first line; None where it is none."""
        found = _FILE.match(self.text)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """The commands in it, without comments, each in one line; none in what is no shell."""
        if self.language not in {"sh", "bash", ""}:
            return []
        lines = [_COMMENT.sub("", x).strip() for x in self.text.replace("\\\n", " ").splitlines()]
        return [x for x in lines if x.split(" ")[0] in PROGRAMS]


def blocks() -> list[Block]:
    """Every block of every page, fenced or indented."""
    return [block for page in PAGES for block in _of_page(page)]


def inline() -> list[tuple[str, str]]:
    """(page, command) of each command that stands in a sentence."""
    pages = ((str(page.relative_to(ROOT)), page.read_text()) for page in PAGES)
    return [
        (name, " ".join(command.split()))
        for name, text in pages
        for command in _INLINE.findall(text)
    ]


def _of_page(page: Path) -> list[Block]:
    name, text = str(page.relative_to(ROOT)), page.read_text()
    fenced = [Block(name, language, body) for _, language, body in _FENCED.findall(text)]
    return fenced + [Block(name, "", body) for body in _INDENTED.findall(_FENCED.sub("", text))]
