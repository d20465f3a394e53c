"""The public API changes on purpose: its signatures are those that are recorded beside this
file.
"""

import importlib
import sys
from pathlib import Path

import pytest

import spanscore

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = Path(__file__).with_name("public_api.txt")
ADVICE = (
    "the public API is another than tests/docs/public_api.txt records. If that is meant: `make"
    " api`, a line in CHANGELOG.md, and see that what users wrote before still works"
)


@pytest.fixture
def api_page(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("api_page")
    sys.modules.pop("api_page")


def test_the_public_signatures_are_the_recorded_ones(api_page):
    assert api_page.signatures() == RECORDED.read_text(encoding="utf-8"), ADVICE


def test_every_public_name_is_on_the_page():
    headings = set((DOCS / "api.md").read_text(encoding="utf-8").splitlines())

    assert [
        x for x in spanscore.__all__ if not x.startswith("__") and f"### {x}" not in headings
    ] == []


def test_every_public_name_has_a_docstring(api_page):
    modules = [importlib.import_module(x) for x in api_page.MODULES]
    without = [
        f"{m.__name__}.{x}"
        for m in modules
        for x in api_page.public_names(m)
        if not api_page.docstring(m, x)
    ]

    assert without == []


SOURCE = """
@overload
def twice(a: int) -> int: ...
@overload
def twice(a: str) -> str: ...
def twice(a): return a * 2

async def slow(first: int, /, second: str = "b", *rest: int, key: bool = False, **more: object) -> \
None: ...

@dataclass(frozen=True)
class Box(Base):
    size: int = 1
    _hidden: int = 0
    @property
    def big(self) -> bool: ...
    def open(self, *, wide: bool = True) -> str: ...
    def _shut(self): ...
"""


@pytest.fixture
def shown(tmp_path, monkeypatch, api_page):
    """What is shown of a name of a module."""
    (tmp_path / "boxes.py").write_text(
        "from typing import overload\nfrom dataclasses import dataclass\nclass Base: ...\n" + SOURCE
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda name: api_page.code(importlib.import_module("boxes"), name)
    sys.modules.pop("boxes", None)


def test_of_an_overloaded_function_the_overloads_are_shown(shown):
    assert shown("twice") == "def twice(a: int) -> int: ...\ndef twice(a: str) -> str: ..."


def test_a_long_signature_has_an_argument_on_each_line(shown):
    assert shown("slow").splitlines() == [
        "async def slow(",
        "    first: int,",
        "    /,",
        '    second: str = "b",',
        "    *rest: int,",
        "    key: bool = False,",
        "    **more: object,",
        ") -> None: ...",
    ]


def test_of_a_class_what_is_public_is_shown(shown):
    assert shown("Box").splitlines() == [
        "@dataclass(frozen=True)",
        "class Box(Base):",
        "    size: int = 1",
        "    @property",
        "    def big(self) -> bool: ...",
        "    def open(self, *, wide: bool = True) -> str: ...",
    ]
