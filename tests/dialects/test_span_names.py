"""Names that an application gives its spans: sessions' attributes, and what the agent's are not."""

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.dialects import SpanNames

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
LIBRARY = "openinference.instrumentation.openai"


@pytest.mark.parametrize("scope", ["", "my.app", LIBRARY])
def test_a_session_key_names_the_session_on_a_span_of_any_scope(scope):
    dialects.configure(SpanNames(session_keys=("chat.ref", "ticket")))
    assert read(CHAT | {"ticket": 42}, scope=scope).session_id == "42"


def test_a_session_key_names_the_session_on_a_span_that_no_dialect_reads():
    dialects.configure(SpanNames(session_keys=("chat.ref",)))
    step = read({"chat.ref": "c-7", "http.route": "/chat"})
    assert (step.kind, step.session_id) == ("other", "c-7")


def test_a_conventions_own_attribute_comes_before_a_session_key():
    dialects.configure(SpanNames(session_keys=("chat.ref",)))
    assert read(CHAT | {"chat.ref": "c-7", "session.id": "s-1"}).session_id == "s-1"


def test_a_redacted_session_key_names_no_session():
    dialects.configure(SpanNames(session_keys=("chat.ref",)))
    assert read(CHAT | {"chat.ref": "[REDACTED]"}).session_id is None


def test_without_a_session_key_such_a_span_names_no_session():
    assert read(CHAT | {"chat.ref": "c-7"}).session_id is None


def test_the_nearest_named_span_decides_which_part_a_span_plays():
    names = SpanNames(utility_spans=("guard*", "memory"), agent_spans=("guarded agent",))
    places = [
        ("root", ""),
        ("guard input", "root"),
        ("chat", "guard input"),
        ("guarded agent", "guard input"),
        ("chat in it", "guarded agent"),
        ("memory", "chat in it"),
        ("Memory", "root"),
    ]
    spans = [span({}, name=x, span_id=x, parent=parent) for x, parent in reversed(places)]
    assert names.parts(spans) == {
        "root": None,
        "guard input": "utility",
        "chat": "utility",
        "guarded agent": "agent",
        "chat in it": "agent",
        "memory": "utility",
        "Memory": None,
    }


def test_spans_that_are_in_each_other_have_an_end():
    spans = [span({}, name=x, span_id=x, parent=y) for x, y in (("1", "2"), ("2", "1"))]
    assert SpanNames(utility_spans=("guard",)).parts(spans) == {"1": None, "2": None}
