"""Claude Code's sub-agents, whose calls its events and its spans tell in names of their own."""

import pytest

from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild, rebuild_all

EVENTS, SPANS = "com.anthropic.claude_code.events", "com.anthropic.claude_code.tracing"
SUB = {"agent_id": "a1"}
OF_SUB = SUB | {"query_source": "agent:custom"}
SDK = {"query_source": "sdk"}


def record(at, name, **attributes):
    told = {"event.name": name, "session.id": "s", "prompt.id": "p", **attributes}
    return LogRecord("", "", at, "", "", told, Resource(), Scope(EVENTS))


def span(span_id, parent, name, start, end, **attributes):
    return Span("t", span_id, parent, f"claude_code.{name}", 1, start, end, 0, "", attributes, Resource(), Scope(SPANS))


@pytest.fixture
def told():
    """A prompt, a sub-agent that calls a tool and answers, and the agent's own answer."""
    counts = {"input_tokens": 3, "output_tokens": 1}
    asked = {"tool_name": "lookup", "tool_use_id": "c1", "success": "true"}
    return [
        record(1, "user_prompt", prompt="Where?"),
        record(2, "api_request", **SDK, **counts),
        record(3, "api_request", **OF_SUB, **counts, **{"agent.name": "clerk"}),
        record(4, "tool_result", **SUB, **asked, tool_input="{}"),
        record(5, "assistant_response", **OF_SUB, response="In Lyon."),
        record(7, "api_request", **SDK, **counts),
        record(8, "assistant_response", **SDK, response="It is in Lyon."),
    ]


def test_a_sub_agents_calls_in_events_alone_have_its_name(told):
    (trace,) = rebuild_all((), told)
    assert [(x.name, x.agent) for x in trace.tool_calls] == [("lookup", "clerk")]


def test_an_agent_is_not_called_as_its_sub_agent(told):
    (trace,) = rebuild_all((), told)
    assert (trace.agent_name, trace.final_output) == (None, "It is in Lyon.")


@pytest.fixture
def spans():
    """The same as spans, whose source of a call is written another way."""
    return [
        span("1", "", "interaction", 1, 9, user_prompt="Where?"),
        span("2", "1", "llm_request", 1, 2, query_source_safe="sdk", output_tokens=1),
        span("3", "1", "tool", 2, 6, tool_name="Agent", tool_use_id="c0", subagent_type="clerk"),
        span("4", "3", "llm_request", 2, 3, query_source_safe="agent.custom", **SUB, output_tokens=1),
        span("5", "3", "tool", 3, 4, tool_name="lookup", tool_use_id="c1", **SUB),
        span("6", "1", "llm_request", 6, 7, query_source_safe="sdk", output_tokens=1),
    ]


def test_a_sub_agents_calls_in_spans_are_counted_and_have_its_name(spans):
    (trace,) = rebuild(spans)
    assert (trace.usage.output_tokens, [x.agent for x in trace.tool_calls]) == (3, [None, "clerk"])


def test_an_answer_in_events_is_that_of_the_agent_whose_source_is_written_another_way_in_spans(spans, told):
    logs = [LogRecord("t", "1", x.time_ns, "", "", x.attributes, Resource(), x.scope) for x in told]
    (trace,) = rebuild(spans, logs)
    assert [x.text for x in trace.model_calls] == [None, "In Lyon.", "It is in Lyon."]
