"""What the site needs beside the pages in docs/: MkDocs calls these functions while it builds
(`make site`).
"""

import re
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from markdown.blockprocessors import ListIndentProcessor, OListProcessor, UListProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = "https://github.com/spanscore/spanscore"
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BESIDE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
"""Pages of the site that stand in the repository's root."""

_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_SOURCE = re.compile(r'(?<=src=")(?P<target>[^":]+)(?P<anchor>)(?=")')
_SOURCES = re.compile(r'(?<=srcset=")(?P<target>[^":]+)(?P<anchor>)(?=")')
# words that only this project's tests read
_WORDS_OF_FENCE = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Add the decisions to the navigation, and have lists nest as they do on GitHub."""
    decisions = sorted(x.relative_to(DOCS).as_posix() for x in (DOCS / "decisions").glob("*.md"))
    config.nav[-1]["Contribute"].append({"Decisions": decisions})
    config.markdown_extensions.append(_NestedByTwo())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that stand beside docs/."""
    for name, beside in BESIDE.items():
        files.append(File.generated(config, name, content=(ROOT / beside).read_text()))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Have links lead to the site's page, or where it has none to the repository's file."""
    beside = BESIDE.get(page.file.src_uri)
    here = ROOT if beside else (DOCS / page.file.src_uri).parent
    if beside:
        page.edit_url = f"{REPOSITORY}/edit/main/{beside}"

    def moved(found: re.Match[str]) -> str:
        return _address((here / found["target"]).resolve(), page) + (found["anchor"] or "")

    prose = _FENCE.split(_WORDS_OF_FENCE.sub(r"\1", markdown))
    for at in range(0, len(prose), 2):  # between fences
        for pattern in (_LINK, _SOURCE, _SOURCES):
            prose[at] = pattern.sub(moved, prose[at])
    return "".join(prose)


def _address(target: Path, page: Page) -> str:
    """Where a file of the repository is, as seen from a page; one that is not there stays, and
    fails the build.
    """
    pages = {ROOT / beside: DOCS / name for name, beside in BESIDE.items()}
    target = pages.get(target, target)
    if target.is_relative_to(DOCS) and not target.is_dir():
        depth: int = page.file.src_uri.count("/")
        return "../" * depth + target.relative_to(DOCS).as_posix()
    inside = target.relative_to(ROOT).as_posix()
    if not target.exists():
        return inside
    return f"{REPOSITORY}/{'tree' if target.is_dir() else 'blob'}/main/{inside}"


class _NestedByTwo(Extension):  # type: ignore[misc]  # the library has no types
    """Two spaces nest a list, as on GitHub; Markdown's library wants four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        usual, md.tab_length = md.tab_length, 2
        processors = md.parser.blockprocessors
        processors.register(ListIndentProcessor(md.parser), "indent", 90)
        processors.register(OListProcessor(md.parser), "olist", 40)
        processors.register(UListProcessor(md.parser), "ulist", 30)
        md.tab_length = usual
