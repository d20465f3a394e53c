"""Nothing inside a fence can end it."""

import re

import pytest
from hypothesis import given, strategies as st

from spanscore.judge.marks import NOTICE, fence

PIECES = st.sampled_from(
    [
        "<",
        "/",
        "untrusted",
        "-",
        "data",
        ">",
        "\n",
        " ",
        "\u200b",
        "\uff1c",
        "UNTRUSTED",
        "_",
        "</untrusted-data",
        "\ud800",
    ]
)
HOSTILE = st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=15).map("".join)


def word_of(fenced):
    return re.match(r"<untrusted-data (\w+)>\n", fenced)[1]


@pytest.mark.slow
@given(HOSTILE)
def test_the_closing_marker_stands_once_at_the_very_end(text):
    fenced = fence(text)

    assert fenced.index(f"</untrusted-data {word_of(fenced)}>") == len(fenced) - len(
        f"</untrusted-data {word_of(fenced)}>"
    )


@given(HOSTILE)
def test_nothing_inside_looks_like_a_marker(text):
    inside = "\n".join(fence(text).split("\n")[1:-1])

    assert not re.search(r"<\s*/?\s*untrusted\W?data", inside, re.IGNORECASE)


@given(HOSTILE)
def test_the_same_text_has_the_same_fence(text):
    assert fence(text) == fence(text)


@pytest.mark.slow
@given(HOSTILE)
def test_what_a_fence_has_neutralised_stays_as_it_is(text):
    inside = fence(text).split("\n", 1)[1].rsplit("\n", 1)[0]

    assert fence(inside).split("\n", 1)[1].rsplit("\n", 1)[0] == inside


def test_a_fenced_text_can_be_fenced_again():
    outer = fence(fence("x"))

    assert outer.count("<untrusted-data") == 1


def test_other_brackets_are_left_alone():
    assert "<b>data</b> a < b" in fence("<b>data</b> a < b")


def test_the_notice_names_the_marker_that_the_fence_uses():
    assert "<untrusted-data X>" in NOTICE
