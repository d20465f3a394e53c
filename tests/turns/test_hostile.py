"""Telemetry is written by strangers: nothing in it may crash a rebuild, make it hang, or make it
depend on order.
"""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from spanscore.dialects import all_dialects
from spanscore.model.json import dumps
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

KEYS = (
    "gen_ai.operation.name",
    "gen_ai.system",
    "gen_ai.request.model",
    "gen_ai.agent.name",
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.usage.input_tokens",
    "gen_ai.response.id",
    "gen_ai.response.finish_reasons",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.999999999999999999999.content",
    "gen_ai.completion.0.tool_calls.0.name",
    "gen_ai.prompt",
    "gen_ai.completion",
    "openinference.span.kind",
    "input.value",
    "output.value",
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
    "llm.tools.0.tool.json_schema",
    "retrieval.documents.0.document.content",
    "metadata",
    "traceloop.span.kind",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "traceloop.entity.name",
    "llm.request.functions.0.name",
    "pydantic_ai.all_messages",
    "pydantic_ai.new_message_index",
    "all_messages_events",
    "model_request_parameters",
    "events",
    "final_result",
    "session.id",
    "user.id",
    "mcp.method.name",
    "error.type",
    "ai.operationId",
    "ai.prompt",
    "ai.prompt.messages",
    "ai.prompt.tools",
    "ai.response.toolCalls",
    "ai.response.text",
    "ai.toolCall.result",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_response",
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.observation.usage_details",
    "langsmith.span.kind",
    "langsmith.metadata.lc_agent_name",
    "llm.openai.messages",
    "llm.openai.choices",
    "llm.openai.usage",
    "gen_ai.agent.tools",
    "mlflow.spanType",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "mlflow.chat.tokenUsage",
    "genkit:type",
    "genkit:metadata:subtype",
    "genkit:input",
    "genkit:output",
    "tool_name",
    "tool_input",
    "response.model_output",
    "input_tokens",
    "query_source",
)
WORDS = (
    "chat",
    "invoke_agent",
    "execute_tool",
    "LLM",
    "AGENT",
    "TOOL",
    "CHAIN",
    "agent",
    "tool",
    "workflow",
    "f",
    "",
)
WORDS += (
    "ai.generateText",
    "ai.streamText.doStream",
    "ai.toolCall",
    "generation",
    "llm",
    "chain",
    "retriever",
)
WORDS += ('"AGENT"', '"CHAT_MODEL"', '"TOOL"', "model", "flow")
SCOPES = ("", "openinference.instrumentation.langchain", "opentelemetry.instrumentation.langchain")
SCOPES += (
    "openinference.instrumentation.smolagents",
    "@arizeai/openinference-instrumentation-openai",
)
SCOPES += tuple(scope for dialect in all_dialects() for scope in dialect.scopes)
EVENTS = (
    "gen_ai.choice",
    "gen_ai.user.message",
    "gen_ai.tool.message",
    "gen_ai.client.inference.operation.details",
)

parts = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            (
                "text",
                "tool_call",
                "tool_call_response",
                "tool-result",
                "reasoning",
                "message",
                7,
                [],
                {},
            )
        ),
        "output": st.fixed_dictionaries(
            {"type": st.sampled_from(("text", "json", [], None))}, optional={"value": st.none()}
        ),
        "function_response": st.fixed_dictionaries(
            {"response": st.sampled_from(({"result": []}, 0, None))}
        ),
        "content": st.recursive(
            st.none() | st.text(max_size=4) | st.integers(), st.lists, max_leaves=4
        ),
        "id": st.sampled_from(("a", "b", None, 3, [], {})),
        "name": st.sampled_from(("f", "g", "", None, 1, [])),
        "arguments": st.sampled_from(({"x": 1}, '{"x": 1}', "{", None, [])),
        "response": st.sampled_from((0, False, None, "", [], {"error": "no"}, "ERROR: x")),
    },
)
messages = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(("user", "assistant", "tool", "system", "", None, 5, [], {})),
            "parts": st.lists(parts | st.none() | st.text(max_size=3), max_size=3),
            "type": st.sampled_from(("function_call", "constructor", "tool", "human", [], {})),
            "tool_call_id": st.sampled_from(("a", None, [])),
            "status": st.sampled_from(("error", None, [])),
            "content": st.text(max_size=3) | st.none() | st.lists(parts, max_size=2),
            "tool_calls": st.lists(parts | st.none(), max_size=2) | st.just("x"),
        },
    )
    | st.none()
    | st.text(max_size=3),
    max_size=4,
)
bodies = st.dictionaries(
    st.sampled_from(
        (
            "messages",
            "contents",
            "content",
            "config",
            "choices",
            "generations",
            "output",
            "tools",
            "args",
        )
    ),
    messages | messages.map(lambda x: {"parts": x}) | st.integers() | st.none(),
    max_size=3,
)
values = st.one_of(
    bodies.map(json.dumps),
    bodies,
    st.sampled_from(WORDS),
    st.integers(-1, 3),
    st.booleans(),
    st.none(),
    st.binary(max_size=2),
    messages,
    messages.map(json.dumps),
    messages.map(lambda x: json.dumps(x)[:-3]),
    st.lists(st.text(max_size=2), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(
        (
            "[" * 50_000,
            '{"a":' * 2_000,
            "[REDACTED]",
            "{'a': 1}",
            '{"args": 1, "kwargs": 2}',
            "NaN",
            "1e999",
        )
    ),
)
attributes = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)
ids = st.sampled_from(("1", "2", "3", "4"))
spans = st.builds(
    Span,
    trace_id=st.just("t"),
    span_id=ids,
    parent_span_id=ids | st.sampled_from(("", "9")),
    name=st.sampled_from(
        (
            "chat",
            "agent run",
            "raw_gen_ai_request",
            "claude_code.llm_request",
            "claude_code.tool",
            "x",
        )
    ),
    kind=st.just(1),
    start_ns=st.integers(0, 3),
    end_ns=st.integers(0, 3),
    status_code=st.integers(0, 2),
    status_message=st.just(""),
    attributes=attributes,
    resource=st.just(Resource()),
    scope=st.sampled_from(SCOPES).map(Scope),
    events=st.lists(
        st.builds(Event, st.sampled_from(EVENTS), attributes=attributes), max_size=2
    ).map(tuple),
)
logs = st.builds(
    LogRecord,
    trace_id=st.just("t"),
    span_id=ids,
    time_ns=st.integers(0, 5),
    event_name=st.sampled_from(EVENTS),
    body=values,
    attributes=attributes,
    resource=st.just(Resource()),
    scope=st.just(Scope()),
)


def printed(traces):
    return [dumps(x.to_json()) for x in traces]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(spans, max_size=6),
    # those of one moment count as they come
    st.lists(logs, max_size=4, unique_by=lambda x: x.time_ns),
    st.randoms(use_true_random=False),
)
def test_no_content_raises_and_no_order_or_repetition_matters(some_spans, some_logs, chance):
    once = printed(rebuild(some_spans, some_logs))
    again, logged = [*some_spans, *some_spans], [*some_logs, *some_logs]
    chance.shuffle(again)
    chance.shuffle(logged)
    assert printed(rebuild(again, logged)) == once


def chain(length, **attributes_of_all):
    return [
        Span(
            "t",
            f"{i:x}",
            f"{i - 1:x}",
            "s",
            1,
            i,
            i + 1,
            0,
            "",
            dict(attributes_of_all),
            Resource(),
            Scope(),
        )
        for i in range(1, length + 1)
    ]


@pytest.mark.slow
def test_a_chain_of_thousands_of_nested_agents_is_read():
    assert rebuild(chain(2_000, **{"gen_ai.operation.name": "invoke_agent"}))


def test_thousands_of_identical_calls_are_read():
    made = chain(2_000, **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"})
    flat = [
        Span(
            "t",
            x.span_id,
            "1",
            "s",
            1,
            x.start_ns,
            x.end_ns,
            0,
            "",
            x.attributes,
            Resource(),
            Scope(),
        )
        for x in made[1:]
    ]
    root = chain(1, **{"gen_ai.operation.name": "invoke_agent"})
    random.Random(0).shuffle(flat)  # an order, no secret
    (trace,) = rebuild(root + flat)
    assert len(trace.tool_calls) == 1_999


def test_thousands_of_calls_that_only_a_later_input_tells_are_read():
    asked = [
        {"type": "tool_call", "id": f"c{i}", "name": "f", "arguments": {}} for i in range(2_000)
    ]
    given = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    for call in asked:
        given.append({"role": "assistant", "parts": [call]})
        given.append(
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": call["id"], "response": "1"}],
            }
        )
    (trace,) = rebuild(
        [
            one_span(
                1, "", **{"gen_ai.operation.name": "chat", "gen_ai.input.messages": dumps(given)}
            )
        ]
    )
    assert [x.call_id for x in trace.tool_calls] == [x["id"] for x in asked]


def test_spans_that_are_each_others_parent_are_read():
    attributes_of_all = {"gen_ai.operation.name": "chat"}
    cycle = [
        Span("t", a, b, "chat", 1, 1, 2, 0, "", attributes_of_all, Resource(), Scope())
        for a, b in (("1", "2"), ("2", "3"), ("3", "1"))
    ]
    assert rebuild(cycle) == rebuild(cycle[::-1])


def one_span(number, parent, **attributes_of_span):
    return Span(
        "t",
        f"{number:x}",
        parent,
        "s",
        1,
        number,
        number + 1,
        0,
        "",
        attributes_of_span,
        Resource(),
        Scope(),
    )


def messages_of(*texts, **calls):
    parts = [{"type": "text", "content": x} for x in texts]
    return dumps([{"role": "assistant", "parts": [*parts, *calls.get("calls", [])]}])


def nested_pairs(count):
    """Wrappers in each other, each with a model call of its own beside the next one."""
    tokens = {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 1}
    wrappers = chain(count, **{"gen_ai.operation.name": "chat"})
    return [*wrappers, *(one_span(count + i, f"{i:x}", **tokens) for i in range(1, count + 1))]


def at_once(spans):
    """Spans that all run until the end, of two instrumentations in turn."""
    return [replace(x, end_ns=10**9, scope=Scope(f"{n % 2}")) for n, x in enumerate(spans)]


def hostile_shapes(count):
    """Shapes that took minutes, had each span or call been compared with all others."""
    operation = "gen_ai.operation.name"
    agent = one_span(1, "", **{operation: "invoke_agent"})
    several = range(2, count + 2)
    arguments = [{"type": "tool_call", "name": "f", "arguments": {"k": k}} for k in several]
    asked = one_span(
        2, "1", **{operation: "chat", "gen_ai.output.messages": messages_of(calls=arguments)}
    )
    others = [{"type": "tool_call", "name": "f", "arguments": {"other": k}} for k in several]
    told = one_span(
        3, "1", **{operation: "chat", "gen_ai.input.messages": messages_of(calls=others)}
    )
    ids = [{"type": "tool_call", "name": "f", "arguments": {}, "id": f"c{k}"} for k in several]
    foreign = [{"type": "tool_call_response", "response": k, "id": f"r{k}"} for k in several]
    tool = {operation: "execute_tool", "gen_ai.tool.name": "f"}
    return {
        "orphans": [
            one_span(
                i,
                f"{i + 10**9:x}",
                **{operation: "chat", "gen_ai.output.messages": messages_of(f"{i}")},
            )
            for i in several
        ],
        "sessions": [
            one_span(i, "", **{operation: "chat", "gen_ai.conversation.id": f"{i}"})
            for i in several
        ],
        "workflows in each other": chain(
            count, **{operation: "invoke_workflow", "gen_ai.output.messages": "x"}
        ),
        "agents in each other": chain(count, **{operation: "invoke_agent"}),
        "model calls in each other": chain(count, **{operation: "chat"}),
        "questions side by side": [
            one_span(
                i,
                "1",
                **{
                    operation: "chat",
                    "gen_ai.input.messages": dumps(
                        [{"role": "user", "parts": [{"type": "text", "content": f"ask {i}"}]}]
                    ),
                    "gen_ai.output.messages": messages_of(f"This is what the answer to {i} says."),
                },
            )
            for i in several
        ],
        "model calls around two each": nested_pairs(count),
        "one response id": [
            one_span(2 * i, "1", **{operation: "chat", "gen_ai.response.id": "r"}) for i in several
        ],
        "one response id and many answers at once": at_once(
            one_span(
                i,
                "1",
                **{
                    operation: "chat",
                    "gen_ai.response.id": "r",
                    "gen_ai.output.messages": messages_of(f"{i}"),
                },
            )
            for i in several
        ),
        "calls alike of two instrumentations at once": at_once(
            one_span(
                i,
                "1",
                **{
                    operation: "chat",
                    "gen_ai.output.messages": messages_of("x"),
                    "gen_ai.usage.input_tokens": i,
                },
            )
            for i in several
        ),
        "tools alike of two instrumentations at once": at_once(
            one_span(i, "1", **tool) for i in several
        ),
        "tools of one name": [agent, *(one_span(i, "1", **tool) for i in several)],
        "calls and spans that differ": [
            agent,
            asked,
            *(
                one_span(i + 3, "1", **tool, **{"gen_ai.tool.call.arguments": dumps({"z": i})})
                for i in several
            ),
        ],
        "calls told otherwise": [agent, asked, told],
        "results of other calls": [
            agent,
            one_span(
                2,
                "1",
                **{operation: "chat", "gen_ai.input.messages": messages_of(calls=[*ids, *foreign])},
            ),
        ],
        "one span again and again": [
            one_span(1, "", **{operation: "chat", "gen_ai.output.messages": messages_of(f"{i}")})
            for i in several
        ],
    }


@pytest.mark.slow
@pytest.mark.parametrize("shape", hostile_shapes(1))
def test_the_work_grows_with_the_spans_and_not_with_their_square(shape, lines_run):
    few, many = (lines_run(rebuild, hostile_shapes(count)[shape]) for count in (100, 400))
    assert many < 6 * few  # four times as many spans; their square would be sixteen times
