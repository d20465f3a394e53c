"""Spans that are no work of an agent are left out before a dialect reads them."""

import pytest
from one_span import span

from spanscore import dialects
from spanscore.dialects.reading import Dialect, IgnoredSpans, first_identity

CHAT = {"gen_ai.operation.name": "chat"}
PARLEY = Dialect(
    "parley",
    lambda _span, _context: {"kind": "agent"},
    (b"parley.",),
    scopes=("parley",),
    ignored=IgnoredSpans(
        scopes=("parley.scores",),
        names=("parley review",),
        keys=("parley.score",),
        values=(("parley.phase", "review"), ("parley.phase", "repeat")),
    ),
    name_session=lambda given: {"session_id": first_identity(given.attributes, ("parley.thread",))},
)


def read(given, **changes):
    with dialects.tried(PARLEY):
        return dialects.read([span(given, **changes)])


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (CHAT, {"scope": "parley.scores"}),
        (CHAT, {"name": "parley review"}),
        (CHAT | {"parley.score": 0.5}, {}),
        (CHAT | {"parley.phase": "review"}, {}),
        (CHAT | {"parley.phase": "repeat"}, {}),
    ],
)
def test_a_dialect_names_spans_that_are_ignored(given, changes):
    assert read(given, **changes).spans == ()


@pytest.mark.parametrize("value", ["work", ["review"], {"review": 1}, None, 1])
def test_a_span_with_another_value_is_read(value):
    assert len(read(CHAT | {"parley.phase": value}).steps) == 1


def test_a_dialect_reads_the_session_of_spans_that_no_dialect_claims():
    (step,) = read({"parley.thread": "t1"}).steps
    assert (step.dialect, step.session_id) == ("", "t1")


def test_a_span_that_names_no_session_and_that_no_dialect_claims_is_no_step():
    found = read({"http.route": "/"})
    assert (found.steps, found.unread) == ((), 1)


def test_a_dialect_that_finds_no_session_leaves_the_one_that_another_found():
    given = {"parley.thread": "t1"}
    silent = Dialect(
        "silent", lambda _span, _context: {}, (), name_session=lambda _span: {"session_id": None}
    )
    with dialects.tried(PARLEY), dialects.tried(silent):
        silent_first = dialects.read([span(given)]).steps[0].session_id
    with dialects.tried(silent), dialects.tried(PARLEY):
        silent_last = dialects.read([span(given)]).steps[0].session_id

    assert (silent_first, silent_last) == ("t1", "t1")
