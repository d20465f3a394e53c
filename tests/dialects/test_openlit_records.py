"""Model calls under OpenLIT whose spans never come are told by their log records, once, at their
place.
"""

from dataclasses import replace

from spanscore import dialects
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

LANGGRAPH, LANGCHAIN, OPENAI = (
    Scope(f"openlit.instrumentation.{x}") for x in ("langgraph", "langchain", "openai")
)
DETAILS = "gen_ai.client.inference.operation.details"
GRAPH = {
    "gen_ai.operation.name": "invoke_workflow",
    "gen_ai.workflow.name": "helper",
    "gen_ai.response.id": "r1",
}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "Look."}}]


def span(span_id, attributes, *, parent="", start_ns=0, end_ns=100, scope=LANGGRAPH):
    return Span(
        "t", span_id, parent, span_id, 1, start_ns, end_ns, 0, "", attributes, Resource(), scope
    )


def node(span_id, name, **more):
    return span(
        span_id,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name},
        parent="graph",
        **more,
    )


def said(role, text):
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def record(
    span_id, time_ns=50, question="q?", answer="a.", response="r1", scope=LANGCHAIN, name=DETAILS
):
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m1",
        "gen_ai.response.id": response,
        "gen_ai.input.messages": [said("system", "Be brief."), said("user", question)],
        "gen_ai.output.messages": [said("assistant", answer)],
        "gen_ai.tool.definitions": TOOLS,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
    }
    return LogRecord("t", span_id, time_ns, name, "", attributes, Resource(), scope)


def chat(span_id, *, scope=LANGCHAIN, **more):
    return span(
        span_id, {"gen_ai.operation.name": "chat", "gen_ai.response.id": "r1"}, scope=scope, **more
    )


def told(spans, logs):
    (trace,) = rebuild(spans, logs)
    return trace


def calls(spans, logs):
    """The spans of model calls that only records tell of."""
    (part,) = dialects.split_units(spans, logs)
    return [x.span for x in dialects.read(*part).steps if x.kind == "model" and not x.span.recorded]


def test_a_model_call_whose_span_never_came_is_told_by_its_record():
    trace = told([span("graph", GRAPH)], [record("lost")])
    assert (trace.user_input, trace.final_output, trace.system_instructions) == (
        "q?",
        "a.",
        "Be brief.",
    )
    assert ([x.name for x in trace.available_tools], trace.usage.input_tokens) == (["f"], 3)


def test_the_call_is_linked_to_the_span_that_never_came():
    (call,) = calls([span("graph", GRAPH)], [record("lost")])
    assert ([(x.trace_id, x.span_id) for x in call.links], call.end_ns) == ([("t", "lost")], 50)


def test_once_its_span_comes_too_it_is_one_call():
    trace = told(
        [span("graph", GRAPH), chat("lost", parent="graph", start_ns=10, end_ns=60)],
        [record("lost")],
    )
    assert ([x.span_id for x in trace.model_calls], trace.user_input) == (["lost"], "q?")


def test_a_record_that_comes_twice_is_one_call():
    assert len(told([span("graph", GRAPH)], [record("lost"), record("lost")]).model_calls) == 1


def test_records_alone_are_a_turn():
    assert told([], [record("lost")]).final_output == "a."


def test_calls_of_several_agents_lie_under_the_graph_that_was_open():
    inner = span(
        "inner", GRAPH | {"gen_ai.workflow.name": "clerk"}, parent="graph", start_ns=20, end_ns=40
    )
    found = calls([span("graph", GRAPH), inner], [record("one", 30), record("two", 60)])
    assert [x.parent_span_id for x in found] == ["inner", "graph"]


def test_under_graphs_side_by_side_a_call_lies_in_what_is_around_both():
    side = [
        span(x, GRAPH | {"gen_ai.workflow.name": x}, parent="graph", start_ns=20, end_ns=40)
        for x in ("one", "two")
    ]
    assert [
        x.parent_span_id for x in calls([span("graph", GRAPH), *side], [record("lost", 30)])
    ] == ["graph"]


def test_a_call_after_many_spans_that_have_ended_lies_under_the_graph():
    ended = [node(f"node-{x}", "clerk", start_ns=x, end_ns=x + 1) for x in range(1, 101)]
    (call,) = calls([span("graph", GRAPH, end_ns=500), *ended], [record("lost", 300)])
    assert call.parent_span_id == "graph"


def test_a_streams_record_under_its_node_is_of_the_call_with_its_response():
    model = chat("model", parent="node", start_ns=10, end_ns=60, scope=OPENAI)
    spans = [span("graph", GRAPH), node("node", "model", start_ns=5, end_ns=70), model]
    trace = told(spans, [record("node", scope=OPENAI)])
    assert ([x.span_id for x in trace.model_calls], [x.name for x in trace.available_tools]) == (
        ["model"],
        ["f"],
    )


def test_other_records_of_spans_that_never_came_tell_no_call():
    assert (
        rebuild([span("graph", GRAPH)], [record("lost", name="gen_ai.choice")])[0].model_calls == ()
    )


def test_the_records_of_other_emitters_wait_for_their_span():
    other = replace(record("lost"), scope=Scope("opentelemetry.instrumentation.openai_v2"))
    assert rebuild([span("graph", GRAPH)], [other])[0].model_calls == ()


def test_a_circle_of_spans_around_a_record_ends():
    circle = [span("one", GRAPH, parent="two"), span("two", GRAPH, parent="one")]
    assert [x.final_output for x in rebuild(circle, [record("lost")])] == ["a."]
