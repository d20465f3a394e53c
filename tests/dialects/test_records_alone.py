"""Turns of which only the log records came that AWS's distribution of OpenTelemetry moved content
into.
"""

import json
from pathlib import Path

import pytest

from spanscore import dialects
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild, rebuild_all

STRANDS = "strands.telemetry.tracer"
LANGCHAIN = "openinference.instrumentation.langchain"
RECORDED = Path(__file__).parents[1] / "golden/strands/shop-agentcore"
PAPER = {"toolUse": {"toolUseId": "c1", "name": "count", "input": {"what": "paper"}}}
SHEETS = {"toolResult": {"toolUseId": "c1", "content": [{"text": "40"}]}}
ASKED = ("user", {"content": json.dumps([{"text": "How much paper is left?"}])})


def record(span_id, at, given, produced, *, scope=STRANDS, session="s-1"):
    body = {
        side: {"messages": [{"role": role, "content": content} for role, content in said]}
        for side, said in (("input", given), ("output", produced))
    }
    attributes = {"event.name": scope, "session.id": session}
    return LogRecord("t", span_id, at, scope, body, attributes, Resource(), Scope(scope))


def answer(*blocks, ended="end_turn"):
    return "assistant", {"message": json.dumps(blocks), "finish_reason": ended}


def model(span_id, at, *blocks, given=(ASKED,), ended="end_turn"):
    return record(span_id, at, given, [answer(*blocks, ended=ended)])


def agent(span_id, at, text, given=(ASKED,)):
    return record(
        span_id, at, given, [("assistant", {"message": text, "finish_reason": "end_turn"})]
    )


def tool(span_id, at, call_id, arguments, result):
    given = "tool", {"role": "tool", "content": json.dumps(arguments), "id": call_id}
    returned = "assistant", {"message": json.dumps([{"text": result}]), "id": call_id}
    return record(span_id, at, [given], [returned])


LOOP = [
    model("a1", 1, PAPER, ended="tool_use"),
    tool("a2", 2, "c1", {"what": "paper"}, "40"),
    model(
        "a3", 3, {"text": "40 sheets."}, given=(ASKED, ("tool", {"content": json.dumps([SHEETS])}))
    ),
    agent("a4", 4, "40 sheets.\n"),
]


def facts(trace):
    calls = [(x.call_id, x.name, x.arguments, x.result) for x in trace.tool_calls]
    said = [(x.text, x.tool_calls) for x in trace.model_calls]
    return (
        trace.user_input,
        trace.final_output,
        trace.system_instructions,
        trace.session_id,
        trace.history,
        calls,
        said,
    )


def test_a_recorded_conversation_without_its_spans_gives_the_same_content():
    telemetry = files.load(sorted(RECORDED.glob("*.pb.gz")))
    whole, alone = (rebuild_all(spans, telemetry.logs) for spans in (telemetry.spans, []))
    assert list(map(facts, alone)) == list(map(facts, whole))


def test_records_stand_for_the_spans_of_a_loop():
    [trace] = rebuild([], LOOP)
    assert facts(trace)[:4] == ("How much paper is left?", "40 sheets.", None, "s-1")
    assert facts(trace)[5] == [("c1", "count", {"what": "paper"}, 40)]


def test_records_of_models_alone_are_a_turn():
    [trace] = rebuild([], [LOOP[0], LOOP[2]])
    assert trace.final_output == "40 sheets."
    assert facts(trace)[5] == [("c1", "count", {"what": "paper"}, 40)]


def test_the_record_of_an_event_loops_cycle_adds_no_call():
    cycle = record("b1", 3, [ASKED], [("assistant", {"message": json.dumps([PAPER])})])
    [trace] = rebuild([], [*LOOP, cycle])
    assert len(trace.model_calls) == 2
    assert facts(trace)[5] == [("c1", "count", {"what": "paper"}, 40)]


def test_the_order_of_records_changes_nothing():
    [trace], [reversed_trace] = rebuild([], LOOP), rebuild([], LOOP[::-1] * 2)
    assert facts(trace) == facts(reversed_trace)


def test_a_model_is_under_the_agent_that_was_asked_the_same():
    asked_inside = ("user", {"content": json.dumps([{"text": "Count it."}])})
    inner = [
        model("d1", 1, {"text": "40"}, given=(asked_inside,)),
        agent("d2", 2, "40\n", given=(asked_inside,)),
    ]
    outer = [model("d3", 3, {"text": "40 sheets."}), agent("d4", 4, "40 sheets.\n")]
    spans, _ = dialects.split_units([], [*inner, *outer])[0]
    parents = {x.end_ns: x.parent_span_id for x in spans}
    ids = {x.end_ns: x.span_id for x in spans}
    assert (parents[1], parents[3]) == (ids[2], ids[4])


def test_records_whose_spans_came_too_are_read_with_these_alone():
    known = Span(
        "t",
        "a3",
        "",
        "chat",
        1,
        2,
        3,
        0,
        "",
        {"gen_ai.operation.name": "chat"},
        Resource(),
        Scope(STRANDS),
    )
    [trace] = rebuild([known], LOOP)
    assert [x.span_id for x in trace.model_calls] == ["a3"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        {},
        {"input": 5, "output": []},
        {"output": {"messages": [{"role": "assistant", "content": {"message": [5]}}]}},
        {"output": {"messages": [{"role": "assistant", "content": 5}]}},
        {"input": {"messages": [{"role": "tool", "content": {"id": ["c1"]}}]}},
    ],
)
@pytest.mark.parametrize("scope", [STRANDS, LANGCHAIN])
def test_a_record_that_holds_no_messages_stands_for_nothing(scope, body):
    log = LogRecord("t", "a1", 1, scope, body, {"event.name": scope}, Resource(), Scope(scope))
    assert rebuild([], [log]) == []


def state(*messages):
    return {
        "messages": [
            {"lc": 1, "kwargs": {"type": kind, "content": text}} for kind, text in messages
        ]
    }


GENERATED = {"generations": [[{"message": {"kwargs": {"type": "ai", "content": "40 sheets."}}}]]}
REQUESTED = {
    "generations": [
        [
            {
                "message": {
                    "kwargs": {
                        "type": "ai",
                        "content": "",
                        "tool_calls": [{"name": "count", "args": {"what": "paper"}, "id": "c1"}],
                    }
                }
            }
        ]
    ]
}
COUNTED = {"type": "tool", "name": "count", "content": "40", "tool_call_id": "c1"}


def moved(span_id, at, given, produced):
    def said(value):
        return value if isinstance(value, str) else json.dumps(value)

    messages = [("user", said(given))], [("assistant", said(produced))]
    return record(span_id, at, *messages, scope=LANGCHAIN)


GRAPH = [
    moved("e1", 1, {"messages": [state(("human", "How much paper?"))["messages"]]}, REQUESTED),
    moved("e2", 2, "{'what': 'paper'}", COUNTED),
    moved("e3", 3, {"messages": [state(("human", "How much paper?"))["messages"]]}, GENERATED),
    moved(
        "e4",
        4,
        state(("human", "How much paper?")),
        state(("human", "How much paper?"), ("ai", "40 sheets.")),
    ),
]


@pytest.mark.parametrize("logs", [GRAPH, GRAPH[:3]], ids=["a graph", "its parts alone"])
def test_langchains_records_stand_for_its_spans(logs):
    [trace] = rebuild([], logs)
    assert (trace.user_input, trace.final_output) == ("How much paper?", "40 sheets.")
    assert facts(trace)[5] == [("c1", "count", {"what": "paper"}, 40)]


def test_a_request_of_records_alone_is_seen_to_be_an_agents():
    assert dialects.shows_genai(b"..." + LANGCHAIN.encode())
    assert dialects.shows_genai(b"..." + STRANDS.encode())
