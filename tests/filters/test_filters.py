"""The filter language of lists, held against small records."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from spanscore.errors import FieldError
from spanscore.filters import MAX_CHARS, Field, parse

FIELDS = {
    "name": Field("text", lambda x: x.get("name")),
    "status": Field("word", lambda x: x.get("status"), ("scored", "failed")),
    "value": Field("number", lambda x: x.get("value")),
    "failing": Field("bool", lambda x: x.get("failing")),
    "at_ns": Field("time", lambda x: x.get("at_ns")),
    "latency": Field("duration", lambda x: x.get("latency")),
    "tags": Field("texts", lambda x: x.get("tags", ())),
    "score": Field("number", lambda x, key: x.get("scores", {}).get(key), is_map=True),
}
ITEM = {
    "name": "Weather bot",
    "status": "scored",
    "value": 0.5,
    "failing": False,
    "at_ns": 1_767_225_600_500_000_000,  # 2026-01-01T00:00:00.5Z
    "latency": 1.5,
    "tags": ("beta",),
    "scores": {"rubric.overall": 3},
}


@pytest.mark.parametrize(
    "text",
    [
        'name = "Weather bot"',
        "name = 'Weather bot'",
        'name = "Weather*"',
        'name = "*bot"',
        'name = "*ther*"',
        'name != "other"',
        "name:weather",
        "name:*",
        "status = scored",
        "status = STATUS_SCORED",
        "value = 0.5",
        "value >= 5e-1",
        "value > -1",
        "failing = false",
        "at_ns > 2026-01-01T00:00:00Z",
        'at_ns = "2026-01-01T01:00:00.5+01:00"',
        "at_ns < 2026-01-02",
        "at_ns > 1767225600000000000",
        "latency = 1500ms",
        "latency < 1m",
        "tags:beta",
        "score.rubric.overall >= 3",
        "NOT value > 0.5",
        "-value > 0.5",
        "value > 1 OR value < 1",
        "value < 1 status = scored",
        "value > 1 OR value < 1 AND status = scored",
        "(value > 1 AND status = failed) OR failing = false",
        "NOT (value > 1 OR status = failed)",
    ],
)
def test_it_holds(text):
    assert parse(text, FIELDS).matches(ITEM)


@pytest.mark.parametrize(
    "text",
    [
        'name = "weather bot"',
        "name:storm",
        "status = failed",
        "value > 0.5",
        "tags:b",
        "score.other:*",
        "status = failed OR value < 1 AND value > 1",  # OR binds more strongly
    ],
)
def test_it_does_not_hold(text):
    assert not parse(text, FIELDS).matches(ITEM)


@pytest.mark.parametrize(
    "text", ["value = 1", "value != 1", "value < 1", "value:*", "name:a", "tags:a"]
)
def test_no_comparison_holds_for_what_is_not_there(text):
    assert not parse(text, FIELDS).matches({})


def test_not_turns_round_that_nothing_is_there():
    assert parse("NOT value:*", FIELDS).matches({})


def test_an_empty_filter_is_none():
    assert parse("  ", FIELDS) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("valu = 1", r"at character 8: there is no field valu; did you mean 'value'\?"),
        ("value = x", "at character 9: value: 'x' is no number"),
        ("value = nan", "is no number"),
        ("value = 1e999", "is no number"),
        ("failing = 1", "neither true nor false"),
        ("status = done", "none of scored, failed"),
        ("at_ns > yesterday", "is no time: write one such as"),
        ("at_ns > 2026-13-01", "no time that there is"),
        ("latency > 5x", "is no duration"),
        ("name > a", "has no order"),
        ("tags = a", "is a list: ask with :"),
        ("value", "after 'value' one of = != < <= > >= : is expected, not the end"),
        ("value =", "a value is expected, not the end"),
        ("= 1", "the name of a field is expected, not '='"),
        ("AND value = 1", "the name of a field is expected, not 'AND'"),
        ("value = 1 AND", "the name of a field is expected, not the end"),
        ("value = 1 OR OR", "the name of a field is expected"),
        ("(value = 1", r"at character 1: this \( is never closed"),
        ("value = 1)", r"at character 10: '\)' is not expected here"),
        ('name = "a', "at character 8: this quote is never closed"),
        ("name = a, value = 1", "',' is not understood"),
        ("f(value) = 1", "one of = != < <= > >= : is expected"),
        ("(" * 100 + "value = 1" + ")" * 100, "nested more than"),
        ("NOT " * 100 + "value = 1", "nested more than"),
        ("value = 1 " * 300, "more than 200 comparisons"),
        ("x" * (MAX_CHARS + 1), f"at most {MAX_CHARS}"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, said):
    with pytest.raises(FieldError, match=rf"^filter: .*{said}"):
        parse(text, FIELDS)


@pytest.mark.slow
@given(st.text(max_size=60) | st.text("()=!<>:\"'- ANDORTvaluem.1\\", max_size=60))
def test_whatever_is_written_is_a_filter_or_an_error_of_the_field(text):
    with contextlib.suppress(FieldError):
        found = parse(text, FIELDS)
        assert found is None or found.matches(ITEM) in {True, False}


@given(st.text(max_size=20))
def test_any_text_can_be_quoted(text):
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    is_plain = "*" not in (text[:1], text[-1:]) or text == "*"
    assert not is_plain or parse(f'name = "{quoted}"', FIELDS).matches({"name": text})
