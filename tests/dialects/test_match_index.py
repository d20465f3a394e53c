"""What a dialect says of the spans that its `matches` may claim leaves out none that it claims."""

from pathlib import Path

import pytest
from one_span import span

from spanscore import dialects
from spanscore.dialects.reading import Dialect, LogRecord
from spanscore.dialects.registry import MatchIndex, own_dialects
from spanscore.model.span import Resource, Scope
from spanscore.otlp.files import load

TRACES = sorted((Path(__file__).parents[1] / "golden").glob("*/*/traces.pb.gz"))
LOOKING = [x for x in own_dialects() if x.matches is not None]
RECORD = LogRecord("t", "1", 1, "parley", None, {}, Resource(), Scope(""))


def parley(matches=lambda _span, _logs: True, **more):
    return Dialect("parley", lambda _span, _context: {"kind": "agent"}, (), matches=matches, **more)


@pytest.mark.slow
def test_the_index_finds_the_first_dialect_that_matches():
    index = MatchIndex.of(LOOKING)
    for given in load(TRACES).spans:
        first = next((x for x in LOOKING if x.matches(given, ())), None)
        assert index.find(given, ()) is first, given


@pytest.mark.parametrize(
    ("more", "attributes", "scope", "is_found"),
    [
        ({}, {}, "", True),
        ({"matching_scopes": ("parley.",)}, {}, "parley.sdk", True),
        ({"matching_scopes": ("parley.",)}, {}, "barley", False),
        ({"matching_keys": ("parley.run",)}, {"parley.run": 1}, "", True),
        ({"matching_keys": ("parley.run",)}, {"barley.run": 1}, "", False),
    ],
)
def test_a_dialect_is_asked_about_the_spans_that_it_may_match(more, attributes, scope, is_found):
    index = MatchIndex.of([parley(**more)])
    assert (index.find(span(attributes, scope=scope), ()) is not None) == is_found


def test_a_dialect_is_asked_about_each_span_with_log_records():
    named = {"matching_scopes": ("parley.",), "matching_keys": ("parley.run",)}
    index = MatchIndex.of([parley(**named)])
    assert index.find(span({}), [RECORD]) is not None


def test_a_dialect_without_matches_is_not_asked():
    assert MatchIndex.of([parley(matches=None)]).find(span({}), ()) is None


def test_a_dialect_in_use_is_asked_about_its_spans():
    with dialects.tried(parley(matching_keys=("parley.run",))):
        (step,) = dialects.read([span({"parley.run": 1})]).steps
    assert step.dialect == "parley"
