"""The documentation's site has every page, and loads nothing from elsewhere; `make site` builds it
and checks links.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "out/site"
NAVIGATION = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
BESIDE_DOCS = {"index.md", "changelog.md", "contributing.md", "security.md"}
LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "srcset",
    "video": "src",
    "link": "href",
}
MERELY_NAMED = {"canonical", "alternate", "edit", "prev", "next"}


def test_the_navigation_has_every_page_once():
    named = re.findall(r"[\w-]+\.md$", NAVIGATION, re.MULTILINE)
    assert sorted(named) == sorted({x.name for x in (ROOT / "docs").glob("*.md")} | BESIDE_DOCS)


@pytest.mark.site
def test_no_built_page_loads_anything_from_elsewhere():
    loaded = {found for page in BUILT.rglob("*.html") for found in Loaded(page).addresses}
    assert loaded
    assert {x for x in loaded if re.match(r"\w+:|//", x) and not x.startswith("data:")} == set()


@pytest.mark.site
def test_no_style_loads_anything_from_elsewhere():
    styles = [x.read_text() for x in [*BUILT.rglob("*.css"), *BUILT.rglob("*.html")]]
    assert {
        x
        for style in styles
        for x in re.findall(r"(?:@import\s+|url\()['\"]?((?:\w+:)?//[^'\")]*)", style)
    } == set()


@pytest.mark.site
@pytest.mark.browser
def test_a_page_and_a_search_ask_no_other_server(browser, serve_folder):
    asked = []
    page = browser.open("about:blank", width=1400, height=900)
    page.on("request", lambda request: asked.append(request.url))
    address = serve_folder(BUILT)
    page.goto(f"{address}/index.html")
    page.click(".md-search__input")
    page.keyboard.type("redacted")
    page.wait_for_selector(".md-search-result__item")
    page.close()
    assert [x for x in asked if not x.startswith((address, "data:"))] == []


class Loaded(HTMLParser):
    """What a page has a browser load by itself."""

    def __init__(self, page):
        super().__init__()
        self.addresses = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        address = attributes.get(LOADING.get(tag, ""))
        if address and attributes.get("rel") not in MERELY_NAMED:
            self.addresses.add(address)
