"""Claude Code's sub-agents, whose calls its events and its spans tell in names of their own."""

import json
from dataclasses import replace

import pytest

from spanscore.dialects.coding_agents.claude_code import read_request
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.model.step import ToolResult
from spanscore.rebuild import rebuild, rebuild_all

EVENTS, SPANS = "com.anthropic.claude_code.events", "com.anthropic.claude_code.tracing"
SUB = {"agent_id": "a1"}
OF_SUB = SUB | {"query_source": "agent:custom"}
SDK = {"query_source": "sdk"}


def record(at, name, **attributes):
    told = {"event.name": name, "session.id": "s", "prompt.id": "p", **attributes}
    return LogRecord("", "", at, "", "", told, Resource(), Scope(EVENTS))


def span(span_id, parent, name, start, end, **attributes):
    return Span(
        "t",
        span_id,
        parent,
        f"claude_code.{name}",
        1,
        start,
        end,
        0,
        "",
        attributes,
        Resource(),
        Scope(SPANS),
    )


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
        span(
            "4", "3", "llm_request", 2, 3, query_source_safe="agent.custom", **SUB, output_tokens=1
        ),
        span("5", "3", "tool", 3, 4, tool_name="lookup", tool_use_id="c1", **SUB),
        span("6", "1", "llm_request", 6, 7, query_source_safe="sdk", output_tokens=1),
    ]


def test_a_sub_agents_calls_in_spans_are_counted_and_have_its_name(spans):
    (trace,) = rebuild(spans)
    assert (trace.usage.output_tokens, [x.agent for x in trace.tool_calls]) == (3, [None, "clerk"])


def test_an_answer_in_events_is_that_of_the_agent_whose_source_is_written_another_way_in_spans(
    spans, told
):
    logs = [LogRecord("t", "1", x.time_ns, "", "", x.attributes, Resource(), x.scope) for x in told]
    (trace,) = rebuild(spans, logs)
    assert [x.text for x in trace.model_calls] == [None, "In Lyon.", "It is in Lyon."]


NOTICE = """<task-notification>
<task-id>a1</task-id>
<tool-use-id>c0</tool-use-id>
<status>completed</status>
<result>In Lyon.</result>
</task-notification>"""


def in_background(notice):
    """A sub-agent that goes on after the answer, and the prompt by which Claude Code then tells
    what it found.
    """
    later = [
        span("7", "", "interaction", 20, 29, user_prompt=notice),
        span("8", "7", "llm_request", 21, 28, query_source_safe="sdk", output_tokens=1),
    ]
    asked = [
        span("1", "", "interaction", 1, 9, user_prompt="Where?"),
        span("2", "1", "llm_request", 1, 2, query_source_safe="sdk", output_tokens=1),
        span("3", "1", "tool", 2, 3, tool_name="Agent", tool_use_id="c0", subagent_type="clerk"),
        span(
            "4", "3", "llm_request", 2, 15, query_source_safe="agent.custom", **SUB, output_tokens=1
        ),
        span("6", "1", "llm_request", 6, 7, query_source_safe="sdk", output_tokens=1),
    ]
    said = {"6": "I have asked.", "8": "It is in Lyon."}
    for one in (*asked, *later):
        one.attributes["session.id"] = "s"
        if one.span_id in said:
            one.attributes["response.model_output"] = said[one.span_id]
    return [*asked, *(replace(x, trace_id="u") for x in later)]


def test_what_a_sub_agent_in_the_background_found_goes_on_with_the_turn_that_asked_it():
    (trace,) = rebuild_all(in_background(NOTICE))
    assert (trace.user_input, trace.final_output) == ("Where?", "It is in Lyon.")
    assert [(x.name, x.call_id, x.result) for x in trace.tool_calls] == [
        ("Agent", "c0", "In Lyon.")
    ]


def test_a_notice_of_an_unknown_call_is_a_turn_of_its_own_in_which_the_user_said_nothing():
    _, trace = rebuild_all(in_background(NOTICE.replace("c0", "c9")))
    assert (trace.user_input, trace.final_output) == (None, "It is in Lyon.")


@pytest.mark.parametrize(
    "said", ["What is " + NOTICE + "?", NOTICE + " Why?", "<task-notification>"]
)
def test_what_a_user_says_of_a_notice_is_a_question(said):
    assert [x.user_input for x in rebuild_all(in_background(said))] == ["Where?", said]


def test_a_notice_in_a_raw_request_is_a_result_too():
    body = json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": NOTICE}]}]}
    )
    (message,) = read_request(body)["input"]
    assert (message.text, message.results) == (None, (ToolResult("c0", "In Lyon."),))
