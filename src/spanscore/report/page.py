"""The HTML file: style, program and data."""

import base64
import hashlib
import html
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from spanscore import local_files
from spanscore.report import document
from spanscore.report.results import Comparison, Results
from spanscore.report.texts import Texts, block, encoded

MAX_BYTES = 64 * 1024 * 1024
"""About how large a report becomes; past it, turns are listed without their steps, those that pass
first.
"""

_STYLES = ("page.css", "parts.css")
_SCRIPTS = (
    "data.js",
    "searching.js",
    "elements.js",
    "words.js",
    "charts.js",
    "marking.js",
    "scores.js",
    "steps.js",
    "turn.js",
    "session.js",
    "overview.js",
    "list.js",
    "keys.js",
    "theme.js",
    "app.js",
)
_NO_SCRIPT = "This report is a page that shows its data by JavaScript, which is turned off here."


def save(
    path: Path,
    results: Results,
    *,
    comparison: Comparison | None = None,
    baseline: Results | None = None,
    redact: Callable[[str], str] = str,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Write a report to a file that only its owner may read; see `page`.

    Raises InputError where it cannot be written there, OutputError where it does not fit.
    """
    parts = page(
        results, comparison=comparison, baseline=baseline, redact=redact, max_bytes=max_bytes
    )
    local_files.write_parts(path, parts)


def page(
    results: Results,
    *,
    comparison: Comparison | None = None,
    baseline: Results | None = None,
    redact: Callable[[str], str] = str,
    max_bytes: int = MAX_BYTES,
) -> Iterator[bytes]:
    """The report as HTML in parts, one after the other, so that it is never in memory whole.

    `comparison` is how the run differs from the run that `baseline` is, whose turns are shown
    beside its own. Every text of a trace or score passes `redact` first. Texts are cut to 20,000
    characters, and past about `max_bytes` turns are listed without their steps, those that fail
    last; the page says what is left out.

    Raises KeyError, TypeError or ValueError where a score's JSON object is none.
    """
    yield _head(results.name)
    index = yield from document.blocks(
        results,
        comparison=comparison,
        baseline=baseline,
        texts=Texts(redact=redact),
        max_bytes=max_bytes,
    )
    yield block("index", encoded(index))
    yield f"<script>{_program()}</script>\n</body>\n</html>\n".encode()


def _head(name: str) -> bytes:
    style, program = _style(), _program()
    policy = (
        f"default-src 'none'; script-src '{_digest(program)}'; style-src '{_digest(style)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="spanscore {html.escape(version("spanscore"))}">
<title>{html.escape(_printable(name))} · spanscore</title>
<link rel="icon" href="{ICON}">
<style>{style}</style>
</head>
<body>
<div id="app"><p class="boot">Reading the report…</p></div>
<noscript><p class="boot">{_NO_SCRIPT}</p></noscript>
""".encode("utf-8", "replace")


ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect"
    " width='16' height='16' rx='4' fill='%234f46e5'/%3E%3Cpath d='M3 5h7M5 8h8M4 11h5'"
    " stroke='white' stroke-width='1.6' stroke-linecap='round'/%3E%3C/svg%3E"
)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _printable(text: str) -> str:
    return "".join(x if x.isprintable() else " " for x in text)


@cache
def _style() -> str:
    return "".join(_asset(name) for name in _STYLES)


@cache
def _program() -> str:
    """The page's program: the modules as one, whose scope nothing else sees."""
    modules = "".join(_joined(_asset(name)) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{modules}}})();'


def _joined(module: str) -> str:
    """A module as a part of a program of all modules, in which every name is known: without imports
    and exports.
    """
    return re.sub(r"^(?:import .*\n|export (?=\w))", "", module, flags=re.MULTILINE)


def _asset(name: str) -> str:
    return (files("spanscore.report") / "assets" / name).read_text("utf-8")
