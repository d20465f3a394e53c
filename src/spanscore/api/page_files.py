"""The files of the page that people open in a browser.

They contain no data: that it asks the API for, by a token.
"""

import hashlib
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from spanscore.api.http_listening import PAGE
from spanscore.report.page import ICON

_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class File:
    """What is answered to a GET of a path."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@cache
def page_files(tenant_header: str | None = None) -> Mapping[str, File]:
    """The files by path.

    All but the page itself are under a digest of them all, and may be kept for ever.

    With a `tenant_header` the page offers to name the tenant, which it sends in this header.
    """
    assets = dict(_assets())
    digest = hashlib.sha256(
        b"\0".join(x for item in assets.items() for x in (item[0].encode(), item[1]))
    ).hexdigest()[:16]
    found = {
        f"{PAGE}{digest}/{name}": File(
            200, _headers(name, "public, max-age=31536000, immutable"), content
        )
        for name, content in assets.items()
    }
    page = _page(digest, sorted(assets), tenant_header).encode()
    found[PAGE] = File(200, _headers("text/html; charset=utf-8", "no-cache"), page)
    moved = File(307, {**_HEADERS, "location": PAGE, "cache-control": "no-cache"}, b"")
    return {**found, "/": moved, PAGE.rstrip("/"): moved}


def _assets() -> Iterator[tuple[str, bytes]]:
    """Scripts and styles by their path: those of the report, which the page shares, and its own."""
    for folder, found in (
        ("report", files("spanscore.report") / "assets"),
        ("page", files("spanscore.api") / "page"),
    ):
        for file in sorted(found.iterdir(), key=_name):
            if any(file.name.endswith(x) for x in _TYPES):
                yield f"{folder}/{file.name}", file.read_bytes()


def _name(file: Traversable) -> str:
    return file.name


def _headers(name: str, cache_control: str) -> dict[str, str]:
    kind = next((x for end, x in _TYPES.items() if name.endswith(end)), name)
    return {**_HEADERS, "content-type": kind, "cache-control": cache_control}


def _page(digest: str, names: list[str], tenant_header: str | None) -> str:
    """The page: it loads its program, which does the rest."""
    styles = "\n".join(f'<link rel="stylesheet" href="{digest}/{x}">' for x in _STYLES)
    early = "\n".join(
        f'<link rel="modulepreload" href="{digest}/{x}">'
        for x in names
        if x.startswith("page/") and x.endswith(".js")
    )
    tenant = (
        ""
        if tenant_header is None
        else f'<meta name="tenant-header" content="{html.escape(tenant_header)}">\n'
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="spanscore {html.escape(version("spanscore"))}">
{tenant}<title>spanscore</title>
<link rel="icon" href="{ICON}">
{styles}
{early}
<script type="module" src="{digest}/page/app.js"></script>
</head>
<body>
<div id="app"><p class="boot">Loading…</p></div>
<noscript><p class="boot">This page shows its data by JavaScript, which is turned off \
here.</p></noscript>
</body>
</html>
"""


_STYLES: Final = ("report/page.css", "report/parts.css", "page/live.css")
