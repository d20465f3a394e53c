"""Which spans are open, so that a trace is not taken for complete before they have ended."""

import pytest

from spanscore.sdk.scoring_thread import OpenSpans


@pytest.fixture
def spans():
    found = OpenSpans()
    found.begun("t", "a")
    found.begun("t", "b")
    return found


def test_what_has_begun_is_open(spans):
    assert set(spans.of_trace("t")) == {"a", "b"}


def test_what_has_ended_is_not(spans):
    spans.ended("t", "a")
    assert set(spans.of_trace("t")) == {"b"}


def test_a_trace_that_is_forgotten_has_no_open_spans(spans):
    spans.forget("t")
    spans.ended("t", "a")
    assert not spans.of_trace("t")


@pytest.mark.slow
def test_the_oldest_trace_is_forgotten_where_there_are_too_many(spans):
    for number in range(100_000):
        spans.begun(f"trace {number}", "a")
    assert not spans.of_trace("t")
    assert spans.of_trace("trace 99999")
