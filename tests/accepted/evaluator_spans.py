"""What the mappers of Strands' evaluation SDK take from spans, events and records.

Which forms they take is in their tests (github.com/strands-agents/evals,
tests/strands_evals/mappers, Apache-2.0); the values are made up here. `moved` is what AWS's
distribution of OpenTelemetry makes of a span: its content stands in a record.
"""

import json

from accepted import ABSENT, Form, span

from spanscore.model.span import LogRecord, Resource, Scope

STRANDS, GENERIC = "strands.telemetry.tracer", "a.tracer"
LANGCHAIN, TRACELOOP = (
    "openinference.instrumentation.langchain",
    "opentelemetry.instrumentation.langchain",
)
DETAILS = "gen_ai.client.inference.operation.details"
QUESTION = "What is 6 times 7?"
ASKED = ("gen_ai.user.message", {"content": [{"text": QUESTION}]})
USES = [{"toolUse": {"toolUseId": "t1", "name": "calc", "input": {"a": 6, "b": 7}}}]


def event_agent(scope):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.tools": ["calc", "search"]}
    return span(attributes, scope=scope, events=[ASKED, ("gen_ai.choice", {"message": "42."})])


def event_tool(scope, events, **more):
    named = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "calc",
        "gen_ai.tool.call.id": "t1",
    }
    return span({**named, **more}, scope=scope, parent="s1", at=2, events=events)


def of_tool(name, scope, events, **more):
    facts = {
        "calls": ["calc"],
        "ids": ["t1"],
        "arguments": [{"a": 6, "b": 7}],
        "results": [42],
        "errors": [None],
    }
    return Form(name, [event_agent(scope), event_tool(scope, events, **more)], facts)


def details(side, *messages):
    return DETAILS, {f"gen_ai.{side}.messages": list(messages)}


def part(role, **fields):
    return {"role": role, "parts": [fields]}


CALLED = details(
    "input", part("tool", type="tool_call", name="calc", id="t1", arguments={"a": 6, "b": 7})
)
RESPONDED = details(
    "output", part("tool", type="tool_call_response", id="t1", response=[{"text": "42"}])
)
AS_TEXT = (
    details("input", part("user", type="text", content='{"a": 6, "b": 7}')),
    details("output", part("assistant", type="text", content="42")),
)
MESSAGE_EVENTS = [
    ("gen_ai.tool.message", {"content": {"a": 6, "b": 7}}),
    ("gen_ai.choice", {"message": [{"text": "42"}]}),
]
ANSWERED = {"input": QUESTION, "output": "42.", "tools": ["calc", "search"], "turns": 1}


def of_any_scope(scope):
    """The forms that a tracer of any name may write."""
    found = [
        Form("an agent by its events", [event_agent(scope)], ANSWERED),
        of_tool("a tool by events of one message each", scope, MESSAGE_EVENTS),
        of_tool("a tool by events of all messages", scope, [CALLED, RESPONDED]),
        of_tool("a tool by events of texts", scope, AS_TEXT),
        of_tool(
            "a tool by attributes",
            scope,
            (),
            **{"gen_ai.tool.input": {"a": 6, "b": 7}, "gen_ai.tool.output": "42"},
        ),
        Form(
            "a model by its events",
            [
                span(
                    {"gen_ai.operation.name": "chat"},
                    scope=scope,
                    events=[ASKED, ("gen_ai.choice", {"message": USES})],
                )
            ],
            {
                "input": QUESTION,
                "output": ABSENT,
                "requested": ["calc"],
                "ids": ["t1"],
                "arguments": [{"a": 6, "b": 7}],
            },
        ),
    ]
    return [x._replace(name=f"{scope}: {x.name}") for x in found]


def moved(attributes, given, produced, *, scope, name="span", parent="", at=1):
    """A span, and the record that its content was moved into: (role, content) each."""
    sent = span(attributes, scope=scope, name=name, parent=parent, at=at)
    body = {
        side: {
            "messages": [
                {"role": role, "content": x if isinstance(x, str) else json.dumps(x)}
                for role, x in told
            ]
        }
        for side, told in (("input", given), ("output", produced))
    }
    return sent, LogRecord(
        trace_id="t",
        span_id=sent.span_id,
        time_ns=sent.end_ns,
        event_name=scope,
        body=body,
        attributes={"event.name": scope},
        resource=sent.resource,
        scope=sent.scope,
    )


def of_moved(name, pairs, facts):
    return Form(name, [x for x, _ in pairs], facts, tuple(x for _, x in pairs))


def said(kind, content):
    return {"messages": [{"kwargs": {"content": content, "type": kind}}]}


TOOL_MESSAGE = {
    "content": "42",
    "type": "tool",
    "name": "calc",
    "tool_call_id": "t1",
    "status": "success",
}
PREFIX = "llm.output_messages.0.message.tool_calls.0.tool_call."
OPENINFERENCE = [
    moved(
        {"openinference.span.kind": "CHAIN"},
        [("user", said("human", QUESTION))],
        [("assistant", said("ai", "42."))],
        scope=LANGCHAIN,
        name="LangGraph",
    ),
    moved(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.1.message.role": "user",
            "llm.output_messages.0.message.role": "assistant",
            f"{PREFIX}id": "t1",
            f"{PREFIX}function.name": "calc",
            f"{PREFIX}function.arguments": '{"a": 6}',
        },
        [("system", "Be brief."), ("user", QUESTION)],
        [("assistant", "I calculate.")],
        scope=LANGCHAIN,
        parent="s1",
        at=2,
    ),
    moved(
        {"openinference.span.kind": "TOOL", "tool.name": "calc"},
        [("user", "{'a': 6}")],
        [("assistant", TOOL_MESSAGE)],
        scope=LANGCHAIN,
        parent="s1",
        at=3,
    ),
]
OPENLLMETRY = [
    moved(
        {"traceloop.span.kind": "workflow", "traceloop.entity.name": "LangGraph"},
        [("user", {"inputs": said("human", QUESTION)})],
        [("assistant", {"outputs": said("ai", "42.")})],
        scope=TRACELOOP,
    ),
    moved(
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.id": "t1",
            "gen_ai.completion.0.tool_calls.0.name": "calc",
            "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 6}',
        },
        [("system", "Be brief."), ("user", QUESTION)],
        [("assistant", "I calculate.")],
        scope=TRACELOOP,
        parent="s1",
        at=2,
    ),
    moved(
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "calc"},
        [("user", {"inputs": {"a": 6}})],
        [
            (
                "assistant",
                {
                    "output": {
                        "kwargs": {"content": "42", "tool_call_id": "t1", "status": "success"}
                    }
                },
            )
        ],
        scope=TRACELOOP,
        parent="s1",
        at=3,
    ),
]
MOVED = {
    "input": QUESTION,
    "output": "42.",
    "system": "Be brief.",
    "said": "I calculate.",
    "calls": ["calc"],
    "ids": ["t1"],
    "arguments": [{"a": 6}],
    "results": [42],
    "turns": 1,
}


def alone(name, scope, told, facts):
    """Records whose spans did not come: (given, produced) each."""
    logs = tuple(
        LogRecord(
            "t",
            f"s{at}",
            at * 10,
            scope,
            {
                side: {"messages": [{"role": role, "content": x} for role, x in said]}
                for side, said in (("input", given), ("output", produced))
            },
            {"event.name": scope, "session.id": "floor-7"},
            Resource(),
            Scope(scope),
        )
        for at, (given, produced) in enumerate(told, 1)
    )
    return Form(name, [], facts, logs)


def in_blocks(role, *blocks, key="content", **more):
    return role, {key: json.dumps(blocks), **more}


ENDED = {"key": "message", "finish_reason": "end_turn"}
RULED, ASKING = in_blocks("system", {"text": "Be brief."}), in_blocks("user", {"text": QUESTION})
RETURNED = {"toolResult": {"toolUseId": "t1", "content": [{"text": "42"}]}}
BY_MODELS = [
    ([RULED, ASKING], [in_blocks("assistant", *USES, **ENDED)]),
    (
        [RULED, ASKING, in_blocks("tool", RETURNED)],
        [in_blocks("assistant", {"text": "42."}, **ENDED)],
    ),
]
BY_AN_AGENT = ([RULED, ASKING], [("assistant", {"message": "42.\n", "finish_reason": "end_turn"})])
LOOPED = {
    "input": QUESTION,
    "output": "42.",
    "system": "Be brief.",
    "session": "floor-7",
    "calls": ["calc"],
    "ids": ["t1"],
    "arguments": [{"a": 6, "b": 7}],
    "results": [42],
    "turns": 1,
}
GENERATED = {"generations": [[{"message": {"kwargs": {"content": "42.", "type": "ai"}}}]]}
BY_LANGCHAIN = [
    ([("user", json.dumps(said("human", QUESTION)))], [("assistant", json.dumps(GENERATED))]),
    ([("user", "{'a': 6}")], [("assistant", json.dumps(TOOL_MESSAGE))]),
    (
        [("user", json.dumps(said("human", QUESTION)))],
        [("assistant", json.dumps(said("ai", "42.")))],
    ),
]
ALONE = [
    alone("Strands' records of models without spans", STRANDS, BY_MODELS, LOOPED),
    alone("Strands' records without spans", STRANDS, [*BY_MODELS, BY_AN_AGENT], LOOPED),
    alone(
        "LangChain's records without spans",
        LANGCHAIN,
        BY_LANGCHAIN,
        {
            "input": QUESTION,
            "output": "42.",
            "session": "floor-7",
            "calls": ["calc"],
            "ids": ["t1"],
            "arguments": [{"a": 6}],
            "results": [42],
            "turns": 1,
        },
    ),
]
SEVERAL_BLOCKS = [
    {"toolResult": {"toolUseId": "t1", "content": [{"text": "42"}, {"text": "It is even."}]}}
]
MIXED_BLOCKS = [
    {"toolResult": {"toolUseId": "t1", "content": [{"text": "Found:"}, {"json": {"n": 42}}]}}
]


def returning(returned):
    """Two model calls, the second of which is given what the tool returned."""
    return [
        span(
            {"gen_ai.operation.name": "chat"},
            scope=GENERIC,
            events=[ASKED, ("gen_ai.choice", {"message": USES})],
        ),
        span(
            {"gen_ai.operation.name": "chat"},
            scope=GENERIC,
            parent="s1",
            at=2,
            events=[
                ASKED,
                ("gen_ai.tool.message", {"content": returned}),
                ("gen_ai.choice", {"message": "42."}),
            ],
        ),
    ]


FORMS = [
    Form(
        "a result of several blocks",
        returning(SEVERAL_BLOCKS),
        {"calls": ["calc"], "results": ["42\nIt is even."]},
    ),
    Form(
        "a result of a text and an object",
        returning(MIXED_BLOCKS),
        {"calls": ["calc"], "results": ['Found:\n{"n":42}']},
    ),
    *of_any_scope(STRANDS),
    *of_any_scope(GENERIC),
    *ALONE,
    of_moved("OpenInference's content, moved into records", OPENINFERENCE, MOVED),
    of_moved("OpenLLMetry's content, moved into records", OPENLLMETRY, MOVED),
]
