"""What is read of hostile telemetry is bounded by what was sent, never by a number or a claim in
it.
"""

import json
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.model.json import dumps
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild, rebuild_all

OPERATION, SENT, ANSWERED = (
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
)
KIND = "openinference.span.kind"
HUGE = (999_999_999, 10**40, 2**63)


def span(number=1, parent="", trace_id="1" * 32, start_ns=None, scope="", **attributes):
    start_ns = number if start_ns is None else start_ns
    span_id = f"{number:016x}"
    return Span(
        trace_id,
        span_id,
        parent,
        "s",
        1,
        start_ns,
        start_ns + 1,
        0,
        "",
        attributes,
        Resource(),
        Scope(scope),
    )


def said(role, text):
    return dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def chat(number=1, question="q", answer="a", **more):
    attributes = {
        OPERATION: "chat",
        SENT: said("user", question),
        ANSWERED: said("assistant", answer),
    }
    given = {key: more.pop(key) for key in ("parent", "trace_id", "start_ns") if key in more}
    return span(number, **given, **{**attributes, **more})


@pytest.mark.parametrize("index", HUGE)
@pytest.mark.parametrize(
    ("marker", "role", "content"),
    [
        ({OPERATION: "chat"}, "gen_ai.prompt.{}.role", "gen_ai.prompt.{}.content"),
        (
            {KIND: "LLM"},
            "llm.input_messages.{}.message.role",
            "llm.input_messages.{}.message.content",
        ),
    ],
    ids=["indexed prompts", "flattened messages"],
)
def test_a_huge_index_is_an_order_and_no_size(index, marker, role, content):
    attributes = {**marker, role.format(0): "user", content.format(0): "first"}
    attributes |= {role.format(index): "user", content.format(index): "last"}
    (trace,) = rebuild([span(**attributes)])
    assert (trace.user_input, len(trace.history)) == ("last", 1)


@pytest.mark.parametrize("index", HUGE)
def test_a_huge_index_of_a_call_is_one_call(index):
    call = f"llm.output_messages.{index}.message.tool_calls.{index}.tool_call"
    attributes = {KIND: "LLM", f"llm.output_messages.{index}.message.role": "assistant"}
    attributes |= {
        f"{call}.function.name": "f",
        f"{call}.function.arguments": "{}",
        f"{call}.id": "00042",
    }
    (trace,) = rebuild([span(**attributes)])
    assert [(x.name, x.call_id) for x in trace.tool_calls] == [("f", "00042")]


def test_a_hundred_spans_that_claim_one_id_are_one_span():
    claims = [chat(answer=f"answer {i}", **{f"x{i}": i}) for i in range(100)]
    (trace,) = rebuild(claims)
    assert len(trace.model_calls) == 1


def test_a_hundred_traces_that_claim_one_span_id_stay_apart():
    traces = rebuild_all(
        [chat(question=f"q{i}", answer=f"a{i}", trace_id=f"{i:032x}") for i in range(1, 101)]
    )
    assert sorted(x.final_output for x in traces) == sorted(f"a{i}" for i in range(1, 101))


def test_a_span_that_is_its_own_parent_is_read():
    (trace,) = rebuild([chat(parent=f"{1:016x}")])
    assert trace.final_output == "a"


def test_children_that_begin_before_their_parent_belong_to_it():
    agent = span(
        1,
        start_ns=1_000,
        **{OPERATION: "invoke_agent", SENT: said("user", "q"), ANSWERED: said("assistant", "a")},
    )
    tool = span(
        2, parent=agent.span_id, start_ns=10, **{OPERATION: "execute_tool", "gen_ai.tool.name": "f"}
    )
    (trace,) = rebuild([agent, tool])
    assert [x.name for x in trace.tool_calls] == ["f"]


def test_spans_that_end_before_they_start_are_read():
    (trace,) = rebuild([replace(chat(), start_ns=10, end_ns=5)])
    assert trace.final_output == "a"


def test_spans_of_one_millisecond_give_one_order_however_they_come():
    agent = span(1, start_ns=0, **{OPERATION: "invoke_agent"})
    tools = [
        span(
            i,
            parent=agent.span_id,
            start_ns=10**6,
            **{OPERATION: "execute_tool", "gen_ai.tool.name": f"f{i}"},
        )
        for i in range(2, 30)
    ]
    ways = [rebuild([agent, *tools]), rebuild([*tools[::-1], agent])]
    assert ways[0] == ways[1]


def test_log_records_without_a_time_still_belong_to_their_span():
    def record(name, body):
        return LogRecord("1" * 32, f"{1:016x}", 0, name, body, {}, Resource(), Scope())

    logs = [
        record("gen_ai.user.message", {"content": "q"}),
        record("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "a"}}),
    ]
    (trace,) = rebuild([span(**{OPERATION: "chat"})], logs)
    assert (trace.user_input, trace.final_output) == ("q", "a")


def test_a_broken_event_costs_no_other():
    events = [
        Event("gen_ai.user.message", 1, {"content": {"a": [None]}, "role": 7}),
        Event("gen_ai.choice", 2, {"message": [[]], "index": "x"}),
        Event("gen_ai.user.message", 3, {"content": "q"}),
        Event("gen_ai.choice", 4, {"content": "a", "role": "assistant"}),
    ]
    (trace,) = rebuild([replace(span(**{OPERATION: "chat"}), events=tuple(events))])
    assert (trace.user_input, trace.final_output) == ("q", "a")


@pytest.mark.parametrize("junk", [None, 7, b"\xff", [], {}, {"role": []}, "[" * 1_000])
@pytest.mark.parametrize(
    ("marker", "role", "content"),
    [
        ({OPERATION: "chat"}, "gen_ai.prompt.{}.role", "gen_ai.prompt.{}.content"),
        (
            {KIND: "LLM"},
            "llm.input_messages.{}.message.role",
            "llm.input_messages.{}.message.content",
        ),
    ],
    ids=["indexed prompts", "flattened messages"],
)
def test_a_broken_message_among_flattened_ones_costs_no_other(marker, role, content, junk):
    attributes = {**marker, role.format(0): "system", content.format(0): "s", role.format(1): junk}
    attributes |= {role.format(2): "user", content.format(2): "q"}
    (trace,) = rebuild([span(**attributes)])
    assert (trace.system_instructions, trace.user_input) == ("s", "q")


def test_text_that_is_no_utf_8_costs_one_span(tmp_path):
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, text in ((1, "invoke_agent"), (2, "BROKEN")):
        added = spans.add(
            trace_id=b"1" * 16, span_id=bytes([number]) * 8, name=text, start_time_unix_nano=1
        )
        added.attributes.add(key=OPERATION).value.string_value = "invoke_agent"
        added.attributes.add(key=ANSWERED).value.string_value = said("assistant", "a")
    path = tmp_path / "traces.pb"
    path.write_bytes(request.SerializeToString().replace(b"BROKEN", b"\xff\xfe\xff\xfe\xff\xfe"))
    telemetry = files.load([path])
    assert [x.final_output for x in rebuild_all(telemetry.spans, telemetry.logs)] == ["a"]


TEN_MB = 10 * 2**20
LONG = {
    "brackets": "[" * TEN_MB,
    "members": '{"a":' * (TEN_MB // 5),
    "numbers": "[" + "1," * (TEN_MB // 2),
    "quotes": '"' * TEN_MB,
    "spaces": " " * TEN_MB,
    "digits": "1" * TEN_MB,
    "a literal": "{'a': '" + "x" * TEN_MB,
    "an error": "Error" * (TEN_MB // 5),
    "a repr": "A(b='" * (TEN_MB // 5),
    "backslashes": "\\" * TEN_MB,
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize(
    "key", [SENT, ANSWERED, "gen_ai.tool.definitions", "gen_ai.system_instructions"]
)
def test_ten_megabytes_in_one_attribute_cost_no_other(key, shape):
    question = "" if key == SENT else "q"
    agent = span(1, **{OPERATION: "invoke_agent", ANSWERED: said("assistant", "a")})
    (trace,) = rebuild([agent, chat(2, question, parent=agent.span_id, **{key: LONG[shape]})])
    assert trace.final_output == "a"


@pytest.mark.slow
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize(
    "tool",
    [
        {OPERATION: "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.result": ""},
        {KIND: "TOOL", "tool.name": "f", "output.value": "", "input.value": ""},
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "f",
            "traceloop.entity.output": "",
        },
        {"langfuse.observation.type": "tool", "langfuse.observation.output": ""},
    ],
    ids=["semconv", "openinference", "openllmetry", "langfuse"],
)
def test_ten_megabytes_that_a_tool_returned_are_one_result(tool, shape):
    agent = span(1, **{OPERATION: "invoke_agent", ANSWERED: said("assistant", "a")})
    attributes = {key: value or LONG[shape] for key, value in tool.items()}
    (trace,) = rebuild([agent, span(2, parent=agent.span_id, **attributes)])
    assert len(trace.tool_calls) == 1


def alike(count):
    """Many traces that could each go on from any other."""
    return {
        "the same request again and again": [
            chat(trace_id=f"{i:032x}", start_ns=i) for i in range(1, count)
        ],
        "one session": [
            chat(trace_id=f"{i:032x}", start_ns=i, question=f"q{i}", **{"session.id": "s"})
            for i in range(1, count)
        ],
        "one answer": [
            chat(trace_id=f"{i:032x}", start_ns=i, question=f"q{i}") for i in range(1, count)
        ],
        "conversations that go on": [
            chat(
                trace_id=f"{i:032x}",
                start_ns=i,
                **{
                    SENT: dumps(
                        [*json.loads(said("user", "q")), *json.loads(said("assistant", "a"))]
                        * (i % 3 + 1)
                    )
                },
            )
            for i in range(1, count)
        ],
    }


@pytest.mark.slow
@pytest.mark.parametrize("shape", alike(1))
def test_putting_traces_together_takes_work_that_grows_with_the_traces(shape, lines_run):
    few, many = (lines_run(rebuild_all, alike(count)[shape]) for count in (50, 200))
    assert many < 6 * few  # four times as many traces; their square would be sixteen times
