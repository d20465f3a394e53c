"""The files of the page: what a browser may do with them, and that each that is named is there."""

import re
from urllib.parse import urljoin

import pytest

from spanscore.api.http_server import page_files
from spanscore.config import PAGE

FILES = page_files()
SCRIPTS = [path for path in FILES if path.endswith(".js")]
_HTML = FILES[PAGE].content.decode()


@pytest.mark.parametrize("path", FILES)
def test_every_file_permits_nothing_but_its_own_server(path):
    policy = dict(
        x.strip().split(" ", 1) for x in FILES[path].headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"], policy["connect-src"]) == (
        "'self'",
        "'self'",
        "'self'",
    )
    assert (policy["frame-ancestors"], policy["form-action"]) == ("'none'", "'none'")
    assert FILES[path].headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_script_and_no_style_of_its_own():
    assert re.findall(r"<script[^>]*>([^<]*)</script>", _HTML) == [""]
    assert not re.search(r"<style|\sstyle=|\son\w+=", _HTML)


def test_what_the_page_loads_is_there():
    named = re.findall(r'(?:src|href)="([^"]+\.(?:js|css))"', _HTML)
    assert len(named) > 10
    assert {urljoin(PAGE, x) for x in named} <= set(FILES)


@pytest.mark.parametrize("path", SCRIPTS)
def test_what_a_module_imports_is_there_and_exported(path):
    text = FILES[path].content.decode()
    for names, source in re.findall(r'^import \{ (.*?) \} from "(.*?)";$', text, re.MULTILINE):
        other = FILES[urljoin(path, source)].content.decode()
        exported = re.findall(
            r"^export (?:async )?(?:function|const|class) (\w+)", other, re.MULTILINE
        )
        assert set(names.split(", ")) <= set(exported), source
    assert len(re.findall(r"^import ", text, re.MULTILINE)) == len(
        re.findall(r"^import \{ .*;$", text, re.MULTILINE)
    )


@pytest.mark.parametrize("path", SCRIPTS)
def test_text_is_never_made_markup(path):
    assert not re.search(
        rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
        FILES[path].content,
    )


def test_what_may_be_kept_for_ever_is_named_by_its_content():
    kept = [path for path, x in FILES.items() if "immutable" in x.headers["cache-control"]]
    assert all(re.match(rf"{PAGE}[0-9a-f]{{16}}/", path) for path in kept)
    assert FILES[PAGE].headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_other_addresses_lead_to_the_page(path):
    assert (FILES[path].status, FILES[path].headers["location"]) == (307, PAGE)
