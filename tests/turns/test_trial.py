"""Which test a turn was recorded for: by its spans, by a span around them, by its resource."""

import pytest

from spanscore import rebuild_all
from spanscore.model.span import Resource, Scope, Span
from spanscore.model.trace import AgentTrace, Trial

ALL = {
    "test.suite.name": "smoke",
    "test.suite.run.id": "r1",
    "test.case.id": "c1",
    "test.case.result.status": "pass",
}


def span(span_id, parent="", attributes=None, resource=None, name="x"):
    made = Resource(resource or {})
    return Span(
        "a" * 32, span_id * 16, parent * 16, name, 1, 1, 2, 0, "", attributes or {}, made, Scope()
    )


def agent(parent="", resource=None, **attributes):
    given = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", **attributes}
    return span("b", parent, given, resource, "invoke_agent a")


def chat(**attributes):
    given = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes}
    return span("c", "b", given, name="chat m")


def trial_of(*spans):
    [trace] = rebuild_all(spans)
    return trace.trial


def test_a_turn_of_no_test_has_none():
    assert trial_of(agent()) is None


@pytest.mark.parametrize(
    "spans",
    [
        [agent(**ALL)],
        [span("d", attributes=ALL), agent("d")],
        [span("e", attributes=ALL), span("d", "e"), agent("d")],
        [agent(resource=ALL)],
    ],
    ids=["agent", "wrapper", "outer wrapper", "resource"],
)
def test_it_is_told_by_the_agents_span_one_around_it_or_the_resource(spans):
    assert trial_of(*spans) == Trial("smoke", "r1", "c1", "pass")


def test_a_model_calls_span_may_tell_it():
    assert trial_of(agent(), chat(**ALL)).case == "c1"


def test_facts_may_stand_in_different_places():
    spans = [
        span("d", attributes={"test.case.id": "c1"}),
        agent("d", resource={"test.suite.run.id": "r1"}),
    ]
    assert trial_of(*spans) == Trial(None, "r1", "c1", None)


def test_a_span_comes_before_the_resource_and_the_outer_one_before_the_inner():
    spans = [
        span("d", attributes={"test.case.id": "outer"}),
        agent("d", {"test.case.id": "r"}, **{"test.case.id": "i"}),
    ]
    assert trial_of(*spans).case == "outer"


@pytest.mark.parametrize(("given", "status"), [("PASS", "pass"), ("skipped", None), (7, None)])
def test_only_pass_and_fail_are_results(given, status):
    assert (
        trial_of(agent(**{"test.case.id": "c", "test.case.result.status": given})).status == status
    )


def test_a_number_is_an_id_and_a_list_is_none():
    assert trial_of(agent(**{"test.case.id": 7})).case == "7"
    assert trial_of(agent(**{"test.case.id": ["x"]})) is None


def test_spans_that_are_each_others_parents_end_somewhere():
    assert trial_of(span("d", "b", ALL), agent("d")).case == "c1"


def test_the_json_of_a_trace_keeps_it():
    [trace] = rebuild_all([agent(**ALL)])
    assert AgentTrace.from_json(trace.to_json()).trial == trace.trial


def test_the_json_of_a_turn_of_no_test_does_not_mention_it():
    [trace] = rebuild_all([agent()])
    assert "trial" not in trace.to_json()
