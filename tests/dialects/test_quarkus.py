"""LangChain4j in Quarkus, in the forms that its recording does not cover."""

import pytest

from spanscore import dialects
from spanscore.model.span import Event, Resource, Scope, Span
from spanscore.rebuild import rebuild

QUARKUS = "io.quarkus.opentelemetry"


def span(name, attributes=None, *, span_id="1", parent="", start_ns=1, events=(), scope=QUARKUS):
    given = attributes or {}
    return Span(
        "t",
        span_id,
        parent,
        name,
        1,
        start_ns,
        99,
        0,
        "",
        given,
        Resource(),
        Scope(scope),
        events=events,
    )


def model(prompt=None, answer=None, **more):
    told = {"gen_ai.request.model": "gpt", "gen_ai.prompt": prompt, "gen_ai.completion": answer}
    return span("completion gpt", {k: v for k, v in told.items() if v is not None}, **more)


def read(given):
    (step,) = dialects.read([given]).steps
    return step


def test_a_prompt_of_one_line_is_the_question():
    assert [(x.role, x.text) for x in read(model("Where?")).input] == [("user", "Where?")]


def test_of_a_prompt_of_several_lines_none_is_told_from_the_next():
    assert read(model("Be brief.\nWhere?")).input is None


def test_a_tool_that_threw_says_so_by_an_event_and_without_a_status():
    thrown = Event("exception", 1, {"exception.message": "too cold"})
    assert (
        read(span("langchain4j.tools.xray", {"gen_ai.tool.name": "xray"}, events=(thrown,))).error
        == "too cold"
    )


def test_an_empty_result_has_no_value():
    assert (
        read(
            span("langchain4j.tools.f", {"gen_ai.tool.name": "f", "gen_ai.tool.call.result": None})
        ).result
        == ""
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("langchain4j.tools.weigh", "tool"), ("langchain4j.aiservices.A.b", "agent")]
)
def test_a_span_without_attributes_is_known_by_its_name(name, kind):
    assert read(span(name)).kind == kind


def test_an_early_tool_is_named_by_its_span():
    assert read(span("langchain4j.tools.weigh")).tool_name == "weigh"


def test_a_span_of_another_scope_is_none_of_quarkus():
    assert not dialects.read([span("langchain4j.tools.weigh", scope="shop")]).steps


def test_a_service_that_a_tool_calls_is_a_sub_agent():
    spans = [
        span("langchain4j.aiservices.Desk.ask", span_id="1"),
        span("langchain4j.tools.clerk", span_id="2", parent="1", start_ns=2),
        span("langchain4j.aiservices.Clerk.find", span_id="3", parent="2", start_ns=3),
        span(
            "langchain4j.tools.track",
            {"gen_ai.tool.name": "track"},
            span_id="4",
            parent="3",
            start_ns=4,
        ),
        model(answer="On its way.", span_id="5", parent="1", start_ns=5),
    ]
    (trace,) = rebuild(spans)
    assert [(x.name, x.agent) for x in trace.tool_calls] == [("clerk", "Desk"), ("track", "Clerk")]
