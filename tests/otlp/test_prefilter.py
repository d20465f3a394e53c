"""A request passes if and only if one of the byte strings is in it, which a plain search says
too.
"""

import gzip
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from spanscore import dialects
from spanscore.otlp.check import Prefilter

RECORDED = sorted((Path(__file__).parents[1] / "golden").glob("*/*/*.pb.gz"))
OF_DIALECTS = tuple(mark for x in dialects.all_dialects() for mark in x.prefilters)
OF_SCORES = (
    b"evaluation",
    b"guardrail",
    b"annotation",
    b"EVALUATOR",
    b"logfire.feedback",
    b"eval_root",
)
PREFILTERS = {wanted: Prefilter(wanted) for wanted in (OF_DIALECTS, OF_SCORES)}
LARGE = 5000


@cache
def body_of(path):
    return gzip.decompress(path.read_bytes())


def is_any_in(body, wanted):
    return any(x in body for x in wanted)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", PREFILTERS, ids=["of dialects", "of scores"])
def test_a_recorded_request_passes_if_one_of_them_is_in_it(wanted):
    passed = [x for x in RECORDED if PREFILTERS[wanted].passes(body_of(x))]
    assert passed == [x for x in RECORDED if is_any_in(body_of(x), wanted)]


@given(st.data(), st.sampled_from(sorted(PREFILTERS)))
def test_a_part_of_a_recorded_request_passes_if_one_of_them_is_in_it(data, wanted):
    body = body_of(data.draw(st.sampled_from(RECORDED)))
    start = data.draw(st.integers(0, len(body)))
    part = body[start : start + data.draw(st.integers(0, 20_000))]
    assert PREFILTERS[wanted].passes(part) == is_any_in(part, wanted)


@given(st.sampled_from(OF_DIALECTS + OF_SCORES), st.integers(0, LARGE), st.integers(0, 9))
def test_one_of_them_is_found_wherever_it_stands(wanted, before, after):
    body = bytes(before) + wanted + bytes(after)
    assert Prefilter([wanted]).passes(body)
    assert Prefilter([wanted]).passes(bytes(LARGE) + body)


@given(st.sampled_from(OF_DIALECTS + OF_SCORES), st.integers(0, 9), st.integers(0, 9))
def test_one_that_is_cut_off_is_not_found(wanted, before, after):
    for cut in (wanted[1:], wanted[:-1]):
        assert not Prefilter([wanted]).passes(bytes(LARGE + before) + cut + bytes(after))


@pytest.mark.parametrize("end", [b"", b"evaluation"])
def test_a_body_full_of_their_beginnings_passes_only_with_a_whole_one(end):
    assert Prefilter([b"evaluation"]).passes(b"evaluatio." * LARGE + end) == bool(end)


def test_they_may_be_of_any_length():
    texts = [b"a", b"bc", b"def", b"0123456", b"0123456789abcdef"]
    assert [Prefilter(texts).passes(bytes(LARGE) + x) for x in texts] == [True] * len(texts)


def test_without_any_of_them_nothing_passes():
    assert not Prefilter([]).passes(bytes(LARGE))
