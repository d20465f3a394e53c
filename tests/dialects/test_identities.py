"""Ids that are numbers, as applications take them from databases, are ids all the same, and
text.
"""

import json

import pytest
from one_span import read, span

from spanscore.rebuild import rebuild

CHAT = {"gen_ai.operation.name": "chat"}
USERS = [
    ("", CHAT, "user.id"),
    ("", CHAT, "enduser.id"),
    ("", {"mastra.span.type": "agent_run"}, "mastra.metadata.resourceId"),
    ("langfuse-sdk", {"langfuse.observation.type": "agent"}, "langfuse.user.id"),
    ("", {"langsmith.span.kind": "llm"}, "langsmith.metadata.user_id"),
    ("", {"traceloop.span.kind": "agent"}, "traceloop.association.properties.user_id"),
    ("pipecat", CHAT, "user_id"),
]
SESSIONS = [
    ("", CHAT, "session.id"),
    ("", CHAT, "gen_ai.conversation.id"),
    ("", {"openinference.span.kind": "AGENT"}, "session.id"),
    ("", {"mastra.span.type": "agent_run"}, "mastra.metadata.threadId"),
    ("langfuse-sdk", {"langfuse.observation.type": "agent"}, "langfuse.session.id"),
    ("", {"langsmith.span.kind": "llm"}, "langsmith.metadata.session_id"),
    ("", {"traceloop.span.kind": "agent"}, "traceloop.association.properties.session_id"),
    ("pipecat", CHAT, "conversation.id"),
]


@pytest.mark.parametrize(("scope", "attributes", "key"), USERS)
def test_a_user_may_be_a_number(scope, attributes, key):
    assert read(attributes | {key: 42}, scope=scope).user_id == "42"


@pytest.mark.parametrize(("scope", "attributes", "key"), SESSIONS)
def test_a_session_may_be_a_number(scope, attributes, key):
    assert read(attributes | {key: 0}, scope=scope).session_id == "0"


@pytest.mark.parametrize("value", [True, 4.5, "", 10**30, ["a"]])
def test_what_is_no_id_names_no_user(value):
    assert read(CHAT | {"user.id": value}).user_id is None


def test_results_go_by_ids_that_are_numbers():
    called = [{"id": x, "function": {"name": "count", "arguments": "{}"}} for x in (1, 2)]
    said = [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "tool_calls": called},
        *({"role": "tool", "tool_call_id": x, "content": f"of {x}"} for x in (2, 1)),
    ]
    (trace,) = rebuild([span(CHAT | {"gen_ai.input.messages": json.dumps(said)})])
    assert [(x.call_id, x.result) for x in trace.tool_calls] == [("1", "of 1"), ("2", "of 2")]
