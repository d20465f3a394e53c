"""What Claude Code's detailed telemetry adds to its spans, and the records that its calls name by a
hash.
"""

import json

import pytest

from spanscore.dialects.coding_agents.claude_code import given, read_request
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

EVENTS, SPANS = "com.anthropic.claude_code.events", "com.anthropic.claude_code.tracing"
PLAN = "Plan: 1. look up the parcel in the list. 2. search the town for it."
HEADER = "x-anthropic-billing-header: cc_version=2;\n\n"


def span(span_id, parent, name, start, end, events=(), **attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
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
        named,
        Resource(),
        Scope(SPANS),
        events,
    )


def record(name, **attributes):
    told = {"event.name": name, "session.id": "s", "prompt.id": "p", **attributes}
    return LogRecord("t", "1", 2, "", "", told, Resource(), Scope(EVENTS))


def turn(*logs, events=(), tool=None, **request):
    """The turn that asks a model, runs one tool and asks again."""
    (trace,) = rebuild(
        [
            span("1", "", "interaction", 1, 9, new_context="[USER PROMPT]\nWhere?"),
            span(
                "2",
                "1",
                "llm_request",
                2,
                3,
                stop_reason="tool_use",
                response__model_output=PLAN,
                **request,
            ),
            span(
                "3", "1", "tool", 4, 5, events, tool_name="lookup", tool_use_id="c1", **(tool or {})
            ),
            span(
                "4",
                "1",
                "llm_request",
                6,
                7,
                stop_reason="end_turn",
                response__model_output="In Lyon.",
            ),
        ],
        logs,
    )
    return trace


def called(**tool):
    (call,) = turn(tool=tool).tool_calls
    return call


def test_the_line_before_a_prompt_is_not_said():
    assert turn().user_input == "Where?"


def test_the_line_before_arguments_is_none_of_them():
    assert called(tool_input='[TOOL INPUT: lookup]\n{"sku": "00042"}').arguments == {"sku": "00042"}


@pytest.mark.parametrize(
    ("recorded", "result"),
    [
        ('[{"type":"text","text":"null"}]', None),
        ('[{"type":"text","text":"00042"}]', "00042"),
        ('{"stdout":"7","stderr":""}', {"stdout": "7", "stderr": ""}),
        ("[draft] no list", "[draft] no list"),
        ("", ""),
    ],
)
def test_a_result_is_the_text_of_its_blocks_or_what_the_tool_returned(recorded, result):
    call = called(new_context=f"[TOOL RESULT: lookup]\n{recorded}")
    assert (call.returned, call.result) == (True, result)


def test_a_result_that_an_event_records_is_the_tools():
    events = (Event("tool.output", 5, {"output": "[1]"}),)
    (call,) = turn(events=events, tool={"new_context": "[TOOL RESULT: lookup]\n[]"}).tool_calls
    assert call.result == [1]


def test_arguments_that_were_cut_are_damaged():
    trace = turn(
        tool={
            "tool_input": (
                '[TOOL INPUT: lookup]\n{"q": "aaa\n\n[TRUNCATED - Content exceeds 60KB limit]'
            )
        }
    )
    assert "tool_calls" in trace.damaged


def test_arguments_that_were_withheld_are_not_shown():
    assert called(tool_input="[TOOL INPUT: lookup]\n<40 chars; not recorded>").arguments is None


def test_an_answer_that_stopped_for_a_tool_is_the_plan():
    assert turn().plan == PLAN


def test_a_whole_preview_is_the_instructions_without_the_line_for_the_bill():
    preview = f"{HEADER}Be brief. 🍵"
    # counted as JavaScript does
    trace = turn(system_prompt_preview=preview, system_prompt_length=len(preview) + 1)
    assert (trace.system_instructions, trace.damaged) == ("Be brief. 🍵", ())


def test_the_users_own_instructions_are_whole_where_the_preview_is_not():
    trace = turn(
        system_prompt_preview="You are", system_prompt_length=700, user_system_prompt="Be brief."
    )
    assert (trace.system_instructions, trace.damaged) == ("Be brief.", ())


def test_a_preview_that_is_shorter_than_the_instructions_is_damaged():
    trace = turn(system_prompt_preview="You are", system_prompt_length=700)
    assert (trace.system_instructions, trace.damaged) == ("You are", ("system_instructions",))


def test_withheld_instructions_are_none():
    trace = turn(system_prompt_preview="<not recorded: memory_operation>", system_prompt_length=700)
    assert (trace.system_instructions, trace.damaged) == (None, ("system_instructions",))


def test_a_record_of_the_instructions_belongs_to_the_call_that_names_its_hash():
    defined = record("system_prompt", system_prompt_hash="sp_1", system_prompt=f"{HEADER}Be brief.")
    other = record("system_prompt", system_prompt_hash="sp_2", system_prompt="Find a title.")
    assert turn(other, defined, system_prompt_hash="sp_1").system_instructions == "Be brief."


def test_a_tool_is_described_where_its_definition_is_recorded():
    definition = {"name": "lookup", "description": "Look up.", "input_schema": {"type": "object"}}
    listed = json.dumps([{"name": "lookup", "hash": "h1"}, {"name": "reserve", "hash": "h2"}])
    trace = turn(
        record("tool", tool_name="mcp_tool", tool_hash="h1", tool=json.dumps(definition)),
        tools=listed,
    )
    assert [(x.name, x.description) for x in trace.available_tools] == [
        ("lookup", "Look up."),
        ("reserve", None),
    ]


def test_a_result_that_only_the_next_model_call_was_given_is_the_tools():
    (trace,) = rebuild(
        [
            span("1", "", "interaction", 1, 9, user_prompt="Where?"),
            span("2", "1", "llm_request", 2, 3, new_context="[USER]\nWhere?"),
            span("3", "1", "tool", 4, 5, tool_name="lookup", tool_use_id="c1"),
            span(
                "4",
                "1",
                "llm_request",
                6,
                7,
                new_context="[TOOL RESULT: c1]\n17",
                response__model_output="17.",
            ),
        ]
    )
    assert [x.result for x in trace.tool_calls] == [17]


def test_what_a_model_was_given_is_parted_only_before_a_line_that_names_a_kind():
    said = "One\n\n---\n\nTwo\n\n[TOOL RESULT: c1]\nThree"
    results = (
        "[TOOL RESULT: c1]\na\n\n---\n\n[TOOL RESULT:"
        " c2]\nb\n\n<system-reminder>\nnow\n</system-reminder>"
    )
    told = given(f"[USER]\n{said}\n\n---\n\n{results}").messages
    assert [(x.text, [(y.call_id, y.value) for y in x.results]) for x in told] == [
        (said, []),
        (None, [("c1", "a")]),
        (None, [("c2", "b")]),
    ]


def test_text_without_a_line_that_names_its_kind_gives_no_messages():
    assert given("Where?").messages is None


def test_a_question_that_a_raw_request_holds_as_plain_text_is_read():
    (message,) = read_request('{"messages": [{"role": "user", "content": "Where?"}]}')["input"]
    assert message.text == "Where?"
