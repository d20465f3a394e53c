"""Which spans inline mode holds back, and which it lets go as soon as others tell."""

import pytest

from spanscore.export import inline as holding
from spanscore.export.config import Inline
from spanscore.export.inline import Candidate, Holding

NS_PER_S = 10**9


def span(name, parent="", *, agent=False, trace="t", content=b"content"):
    key, id_ = trace.encode(), name.encode()
    return Candidate(key, key + id_, id_, parent.encode(), agent, lambda: name, lambda: content)


@pytest.fixture
def held():
    return Holding(Inline())


def come(holding, *candidates, now_ns=0):
    """Give `holding` the spans of one request; returns those held back, and those let go, by their
    ids.
    """
    let_go = holding.note(candidates)
    waiting = []
    for one in sorted(candidates, key=lambda x: not x.is_agent):
        if holding.must_wait(one):
            waiting.append(one)
            if not holding.is_copy(one):
                holding.hold(one, 1, (), now_ns)
    return names(waiting), held_names(let_go)


def held_names(held):
    return {bytes.fromhex(x.span_id).decode() for x in held}


def names(candidates):
    return {x.span_id.decode() for x in candidates}


def test_an_agent_waits_and_what_is_under_it_does_not(held):
    assert come(held, span("model", "agent"), span("agent", agent=True)) == ({"agent"}, set())


def test_an_agent_under_an_agent_is_let_go_when_that_one_comes(held):
    assert come(held, span("inner", "outer", agent=True)) == ({"inner"}, set())
    assert come(held, span("outer", agent=True)) == ({"outer"}, {"inner"})


def test_an_agent_is_let_go_however_far_above_it_the_other_is(held):
    come(held, span("inner", "tool", agent=True))
    assert come(held, span("tool", "model")) == (set(), set())
    assert come(held, span("outer", agent=True)) == ({"outer"}, set())
    assert come(held, span("model", "outer")) == (set(), {"inner"})


def test_an_agent_under_one_that_is_there_does_not_wait(held):
    come(held, span("outer", agent=True))
    assert come(held, span("inner", "outer", agent=True)) == (set(), set())


def test_an_agent_under_something_else_waits(held):
    assert come(held, span("agent", "http", agent=True), span("http")) == ({"agent"}, set())


def test_the_root_of_a_trace_with_several_outermost_agents_waits(held):
    come(held, span("first", "crew", agent=True), span("second", "crew", agent=True))
    assert come(held, span("crew")) == ({"crew"}, set())


def test_the_root_of_a_trace_without_agents_waits(held):
    assert come(held, span("model", "root"), span("root")) == ({"root"}, set())


def test_parents_in_a_circle_end(held):
    assert come(held, span("a", "b", agent=True), span("b", "a"))[0] == {"a"}


def test_traces_do_not_mix(held):
    come(held, span("agent", agent=True, trace="one"))
    assert come(held, span("other", "agent", agent=True, trace="two")) == ({"other"}, set())


def test_a_copy_of_what_waits_is_known(held):
    come(held, span("agent", agent=True))
    assert held.is_copy(span("agent", agent=True))
    assert len(held) == 1


def test_a_copy_of_what_has_left_is_known(held):
    come(held, span("agent", agent=True))
    held.take(b"t")
    assert held.is_copy(span("agent", agent=True))


def test_other_content_under_the_same_ids_is_no_copy_and_does_not_wait(held):
    come(held, span("agent", agent=True))
    assert come(held, span("agent", agent=True, content=b"more")) == (set(), set())


def test_a_span_waits_as_long_as_it_may(held):
    come(held, span("agent", agent=True))
    assert held.take_overdue(59 * NS_PER_S) == []
    assert held_names(held.take_overdue(60 * NS_PER_S)) == {"agent"}
    assert not len(held)


def test_of_too_many_the_oldest_leave():
    held = Holding(Inline(max_held_roots=1))
    for name in ("one", "two", "three"):
        come(held, span(name, agent=True, trace=name))
    assert held_names(held.take_overdue(0)) == {"one", "two"}


def test_only_some_of_a_trace_may_be_taken(held):
    come(held, span("a", agent=True), span("b", agent=True))
    assert held_names(held.take(b"t", {b"a".hex()})) == {"a"}
    assert held.traces() == [b"t"]


def test_of_too_many_spans_the_ancestry_is_forgotten_and_agents_wait(held, monkeypatch):
    monkeypatch.setattr(holding, "_MAX_ANCESTRY_SPANS", 1)
    come(held, span("outer", agent=True))
    come(held, span("other", agent=True, trace="u"))
    assert come(held, span("inner", "outer", agent=True)) == ({"inner"}, set())


def test_of_too_many_that_have_left_the_oldest_are_forgotten(held, monkeypatch):
    monkeypatch.setattr(holding, "_MAX_LEFT", 1)
    come(held, span("a", agent=True), span("b", agent=True))
    held.take(b"t")
    assert [held.is_copy(span(x, agent=True)) for x in "ab"] == [False, True]


def test_of_too_many_bytes_the_oldest_leave(held, monkeypatch):
    monkeypatch.setattr(holding, "_MAX_HELD_BYTES", 10)
    for name in ("one", "two"):
        come(held, span(name, agent=True, trace=name, content=b"seven b"))
    assert held_names(held.take_overdue(0)) == {"one"}
