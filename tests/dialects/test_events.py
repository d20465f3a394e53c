"""What coding agents tell in log records: which turn a record is of, and what it makes known of a
call.
"""

import json
from dataclasses import replace

import pytest

from spanscore import dialects
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild_all, unread_all

CLAUDE_CODE, CODEX, GEMINI = "com.anthropic.claude_code.events", "codex_otel.log_only", "gemini-cli"
MS = 1_000_000
ONE = Resource({"service.name": "claude-code"})


def record(scope, name, at_ms, *, trace_id="", span_id="", resource=ONE, **attributes):
    told = {
        "event.name": name,
        **{key.replace("__", "."): value for key, value in attributes.items()},
    }
    return LogRecord(trace_id, span_id, at_ms * MS, "", None, told, resource, Scope(scope))


def claude(name, at_ms, *, prompt_id="p1", session="s1", **attributes):
    return record(
        CLAUDE_CODE, name, at_ms, **{"session__id": session, "prompt__id": prompt_id, **attributes}
    )


def codex(name, at_ms, *, conversation="c1", **attributes):
    return record(CODEX, f"codex.{name}", at_ms, **{"conversation__id": conversation, **attributes})


def gemini(name, at_ms, *, session="s1", **attributes):
    return record(GEMINI, f"gemini_cli.{name}", at_ms, **{"session__id": session, **attributes})


def gemini_span(span_id, at_ms, operation="llm_call", **attributes):
    told = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": "s1", **attributes}
    place = (f"{span_id:032x}", f"{span_id:016x}", "", operation, 1, at_ms * MS, (at_ms + 9) * MS)
    return Span(*place, 1, "", told, ONE, Scope(GEMINI))


def interaction(span_id="0a" * 8, **attributes):
    told = {"session.id": "s1", **attributes}
    name = "claude_code.interaction"
    return Span(
        "0b" * 16,
        span_id,
        "",
        name,
        1,
        0,
        99 * MS,
        0,
        "",
        told,
        ONE,
        Scope("com.anthropic.claude_code.tracing"),
    )


def only(logs, spans=()):
    (trace,) = rebuild_all(spans, logs)
    return trace


ASKED = claude("user_prompt", 1, prompt_length="2", prompt="Is 00042 in stock?")
CALLED = claude(
    "api_request",
    3,
    model="claude",
    input_tokens=7,
    cache_read_tokens=3,
    output_tokens=2,
    query_source="sdk",
)
SAID = claude("assistant_response", 3, response="None is.", query_source="sdk")
DETAILS = json.dumps({"mcp_server_name": "shop", "mcp_tool_name": "stock"})


def tool_result(at_ms=2, **attributes):
    told = {
        "tool_name": "mcp_tool",
        "tool_use_id": "t1",
        "tool_parameters": DETAILS,
        "success": "true",
    }
    return claude("tool_result", at_ms, **{**told, **attributes})


def test_records_of_one_prompt_are_a_turn():
    trace = only([ASKED, CALLED, SAID])
    assert (trace.user_input, trace.final_output, trace.session_id) == (
        "Is 00042 in stock?",
        "None is.",
        "s1",
    )


def test_the_order_and_repetition_of_records_change_nothing():
    logs = [ASKED, tool_result(), CALLED, SAID]
    assert rebuild_all([], [*reversed(logs), *logs]) == rebuild_all([], logs)


def test_prompts_of_one_session_are_turns_of_their_own():
    logs = [
        ASKED,
        SAID,
        claude("user_prompt", 5, prompt="And now?", prompt_id="p2"),
        replace(SAID, time_ns=6 * MS),
    ]
    assert len(rebuild_all([], logs)) == 2


def test_without_prompt_ids_a_turn_goes_from_one_prompt_to_the_next():
    logs = [
        record(CLAUDE_CODE, "user_prompt", at, session__id="s1", prompt=f"at {at}") for at in (1, 5)
    ]
    assert [x.user_input for x in rebuild_all([], logs)] == ["at 1", "at 5"]


def test_what_was_asked_on_the_side_is_no_turn():
    aside = claude(
        "api_request", 4, prompt_id="p9", query_source="generate_session_title", input_tokens=5
    )
    assert [x.usage.input_tokens for x in rebuild_all([], [ASKED, CALLED, SAID, aside])] == [10]


def test_a_sub_agents_answer_is_not_the_answer():
    sub = claude("api_request", 4, query_source="agent:builtin:Explore", input_tokens=1)
    told = claude("assistant_response", 4, response="Looked.", query_source="agent:builtin:Explore")
    last = claude("api_request", 9, query_source="sdk", input_tokens=1)
    trace = only([ASKED, CALLED, sub, told, last, replace(SAID, time_ns=9 * MS)])
    assert trace.final_output == "None is."


def test_an_mcp_tool_has_the_name_by_which_the_model_knows_it():
    (call,) = only([ASKED, tool_result(tool_input='{"sku": "00042"}')]).tool_calls
    assert (call.name, call.arguments, call.result) == ("mcp__shop__stock", {"sku": "00042"}, None)


def test_a_tool_that_failed_says_why():
    (call,) = only([ASKED, tool_result(success="false", error="no such site")]).tool_calls
    assert (call.error, call.error_inferred) == ("no such site", False)


def test_a_tool_that_the_user_refused_is_an_error():
    refused = claude("tool_decision", 2, tool_name="Bash", tool_use_id="t1", decision="reject")
    (call,) = only([ASKED, refused]).tool_calls
    assert (call.name, call.error) == ("Bash", "rejected")


def test_a_redacted_prompt_is_damaged_and_no_question():
    trace = only([claude("user_prompt", 1, prompt="<REDACTED>"), SAID])
    assert (trace.user_input, trace.damaged) == (None, ("user_input",))


def test_what_the_resource_names_is_the_session_and_the_user():
    given = Resource({"session.id": "floor-7", "user.id": "007"})
    trace = only([replace(x, resource=given) for x in (ASKED, SAID)])
    assert (trace.session_id, trace.user_id) == ("floor-7", "007")


def test_records_under_a_received_span_complete_it():
    logs = [replace(x, trace_id="0b" * 16, span_id="0a" * 8) for x in (ASKED, SAID)]
    trace = only(logs, [interaction()])
    assert (trace.target.span_id, trace.user_input) == ("0a" * 8, "Is 00042 in stock?")


def under_interaction(span_id, name, end_ms, **attributes):
    place = ("0b" * 16, span_id, "0a" * 8, f"claude_code.{name}", 1, 0, end_ms * MS, 0, "")
    return Span(*place, attributes, ONE, Scope("com.anthropic.claude_code.tracing"))


def tool_span(span_id, end_ms):
    return under_interaction(span_id, "tool", end_ms, tool_name="mcp__shop__stock")


def test_records_without_a_trace_complete_the_silent_spans_of_their_session():
    logs = [
        ASKED,
        tool_result(2, tool_input='{"sku": "1"}'),
        tool_result(4, tool_input="{}", tool_use_id="t2"),
        SAID,
    ]
    spans = [
        interaction(user_prompt="Is 00042 in stock?"),
        under_interaction("03" * 8, "llm_request", 3),
    ]
    trace = only(logs, [*spans, tool_span("01" * 8, 2), tool_span("02" * 8, 5)])
    assert (trace.trace_ids, trace.final_output) == (("0b" * 16,), "None is.")
    assert [(x.call_id, x.arguments, x.span_id) for x in trace.tool_calls] == [
        ("t1", {"sku": "1"}, "01" * 8),
        ("t2", {}, "02" * 8),
    ]


def test_records_of_another_time_are_another_turn():
    late = [replace(x, time_ns=x.time_ns + 200 * MS) for x in (ASKED, SAID)]
    assert (
        len(
            rebuild_all(
                [interaction(user_prompt="Is 00042 in stock?"), tool_span("01" * 8, 2)], late
            )
        )
        == 2
    )


@pytest.mark.parametrize(
    "left", ['{"a":["<nested>"]}', '{"a":"bcd…[600 chars]"}', '{"a":1,"…":"21 keys"}']
)
def test_arguments_that_claude_code_shortened_are_damaged(left):
    assert "tool_calls" in only([ASKED, tool_result(tool_input=left)]).damaged


def test_scores_of_a_turn_without_a_span_have_no_span_to_go_to():
    trace = only([ASKED, SAID])
    assert (trace.target.span_id, trace.root_span_id, len(trace.target.trace_id)) == ("", None, 32)


def test_scores_of_a_turn_whose_span_was_not_received_go_to_that_span():
    trace = only([replace(x, trace_id="0b" * 16, span_id="0a" * 8) for x in (ASKED, SAID)])
    assert (trace.target.trace_id, trace.target.span_id) == ("0b" * 16, "0a" * 8)


def request_body(messages, **more):
    return claude(
        "api_request_body",
        2,
        body=json.dumps({"model": "c", "messages": messages, **more}),
        query_source="sdk",
    )


def test_the_raw_request_tells_the_instructions_and_the_tools():
    tool = {"name": "stock", "description": "Count.", "input_schema": {"type": "object"}}
    trace = only(
        [
            ASKED,
            request_body([], system=[{"type": "text", "text": "Be brief."}], tools=[tool]),
            CALLED,
        ]
    )
    assert (trace.system_instructions, [x.name for x in trace.available_tools]) == (
        "Be brief.",
        ["stock"],
    )


def test_of_a_raw_request_that_was_cut_the_whole_parts_are_kept_and_the_rest_is_damaged():
    tools = [{"name": x, "description": "d", "input_schema": {}} for x in ("stock", "note")]
    whole = request_body([], system="Be brief.", tools=tools)
    cut = replace(whole, attributes={**whole.attributes, "body": whole.attributes["body"][:-30]})
    trace = only([ASKED, cut, CALLED])
    assert ([x.name for x in trace.available_tools], trace.damaged) == (
        ["stock"],
        ("available_tools",),
    )


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("0\n\n<system-reminder>\nHurry.\n</system-reminder>", 0),
        (
            [
                {"type": "text", "text": "[]\n"},
                {"type": "text", "text": "<system-reminder>\n.\n</system-reminder>"},
            ],
            [],
        ),
        ("(mcp__shop__stock completed with no output)", ""),
        ("<system-reminder> is a tag", "<system-reminder> is a tag"),
    ],
)
def test_what_claude_code_adds_to_a_result_is_not_the_result(content, result):
    told = [
        {"role": "user", "content": [{"type": "text", "text": "Is 00042 in stock?"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "mcp__shop__stock", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content}],
        },
    ]
    (call,) = only([ASKED, tool_result(), request_body(told), CALLED]).tool_calls
    assert call.result == result


DONE = {"event.kind": "response.completed"}
COUNTED = {"input_token_count": "11", "output_token_count": "2"}


def codex_turn(begins_ms, question, **result):
    told = {
        "tool_name": "stock",
        "tool_namespace": "mcp__shop",
        "call_id": f"c{begins_ms}",
        "success": "true",
    }
    return [
        codex("user_prompt", begins_ms, prompt=question),
        codex("sse_event", begins_ms + 1, **DONE, **COUNTED),
        codex(
            "tool_result",
            begins_ms + 2,
            **{**told, "arguments": '{"sku": "00042"}', "output": "0", **result},
        ),
    ]


def test_codex_tells_a_turn_from_each_prompt_to_the_next():
    traces = rebuild_all([], codex_turn(1, "First?") + codex_turn(9, "Second?"))
    assert [(x.user_input, x.usage.input_tokens, len(x.tool_calls)) for x in traces] == [
        ("First?", 11, 1),
        ("Second?", 11, 1),
    ]


def test_codex_counts_a_response_once_though_two_events_tell_its_end():
    logs = [*codex_turn(1, "First?"), codex("sse_event", 2, **DONE)]
    assert len(only(logs).model_calls) == 1


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ("Wall time: 0.0038 seconds\nOutput:\n0", 0),
        ("Wall time: 0.0038 seconds\nOutput:", ""),
        ('{"result": "Output:\\n0"}', {"result": "Output:\n0"}),
        ("My Output:\n0", "My Output:\n0"),
    ],
)
def test_what_codex_reports_above_a_result_is_not_the_result(output, result):
    (call,) = only(codex_turn(1, "First?", output=output)).tool_calls
    assert (call.name, call.result) == ("mcp__shop__stock", result)


def test_a_command_of_codexs_that_failed_and_put_out_nothing_has_failed():
    report = "Exit code: 1\nWall time: 0.1 seconds\nOutput:\n"
    (call,) = only(codex_turn(1, "First?", output=report, success="false")).tool_calls
    assert (call.result, call.error) == ("", "error")


def test_what_codex_says_before_the_first_prompt_is_the_end_of_a_turn_that_is_gone():
    _, *rest = codex_turn(1, "First?")
    assert [x.user_input for x in rebuild_all([], rest + codex_turn(9, "Second?"))] == ["Second?"]


def gemini_turn(begins_ms, question, number):
    contents = [
        {"role": "user", "parts": [{"text": "<session_context>\nToday\n</session_context>"}]}
    ]
    contents.append({"role": "user", "parts": [{"text": question}]})
    answer = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": x}]}}]}
        for x in ("No", "ne.")
    ]
    place = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}"}
    return [
        gemini("user_prompt", begins_ms, prompt=question),
        gemini(
            "api_request", begins_ms + 1, request_text=json.dumps(contents), role="main", **place
        ),
        gemini(
            "api_response",
            begins_ms + 9,
            response_text=json.dumps(answer),
            role="main",
            input_token_count=5,
        ),
    ]


def test_a_turn_of_gemini_cli_is_one_though_each_model_call_is_a_trace():
    trace = only(
        gemini_turn(1, "Is it?", 7), [gemini_span(7, 2), gemini_span(8, 15, "schedule_tool_calls")]
    )
    assert (trace.user_input, trace.final_output, trace.usage.input_tokens) == (
        "Is it?",
        "None.",
        5,
    )


def test_gemini_cli_without_traces_is_told_by_its_records():
    trace = only(gemini_turn(1, "Is it?", 7))
    assert (trace.user_input, trace.final_output, trace.target.span_id) == ("Is it?", "None.", "")


def test_a_tool_of_gemini_clis_that_failed_without_a_text_has_failed():
    asked = {"functionCall": {"id": "c1", "name": "unlock", "args": {}}}
    failed = {"functionResponse": {"id": "c1", "name": "unlock", "response": {"error": ""}}}
    given = [{"role": "model", "parts": [asked]}, {"role": "user", "parts": [failed]}]
    request = gemini("api_request", 3, request_text=json.dumps(given), role="main")
    begun, _, answered = gemini_turn(1, "Is it?", 7)
    (call,) = only([begun, request, answered]).tool_calls
    assert (call.result, call.error) == ("", "error")


def test_the_scores_of_a_turn_of_gemini_cli_go_to_its_first_model_call():
    trace = only(gemini_turn(1, "Is it?", 7), [gemini_span(7, 2)])
    assert (trace.target.trace_id, trace.target.span_id) == (f"{7:032x}", f"{7:016x}")


def test_a_model_call_of_gemini_cli_that_serves_no_turn_is_left_out():
    place = {"trace_id": f"{8:032x}", "span_id": f"{8:016x}"}
    aside = gemini("api_request", 3, role="utility_router", **place)
    trace = only([*gemini_turn(1, "Is it?", 7), aside], [gemini_span(7, 2), gemini_span(8, 3)])
    assert len(trace.model_calls) == 1


def qwen(name, at_ms, **attributes):
    return record("qwen-code", f"qwen-code.{name}", at_ms, session__id="s1", **attributes)


def qwen_turn(*aside):
    said = [("user", "This is the Qwen Code. We are setting up the context for our chat.\nToday")]
    said += [("model", "Got it. Thanks for the context!"), ("user", "Is it?")]
    contents = [{"role": role, "parts": [{"text": x}]} for role, x in said]
    asked = qwen("api_request", 2, request_text=json.dumps(contents))
    answered = qwen("api_response", 9, response_text='{"open": false}', input_token_count=5)
    return only([qwen("user_prompt", 1, prompt="Is it?"), asked, answered, *aside])


def test_the_answer_of_which_qwen_code_records_the_text_is_found_even_if_it_is_json():
    trace = qwen_turn()
    assert (trace.user_input, trace.final_output, trace.history) == (
        "Is it?",
        '{"open": false}',
        (),
    )


def test_the_agent_that_keeps_qwen_codes_memory_is_no_part_of_a_turn():
    aside = {"subagent_name": "managed-auto-memory-extractor", "response_text": "Kept."}
    trace = qwen_turn(qwen("api_response", 12, input_token_count=7, **aside))
    assert (trace.final_output, trace.usage.input_tokens) == ('{"open": false}', 5)


@pytest.mark.parametrize(
    ("response", "result", "error"),
    [
        ({"output": "0"}, 0, None),
        ({"output": "<untrusted_context>\n[]\n</untrusted_context>"}, [], None),
        ({"error": "no such site"}, "no such site", "no such site"),
        ({"output": "a", "kind": 1}, {"output": "a", "kind": 1}, None),
    ],
)
def test_the_envelope_of_gemini_cli_around_a_result_is_opened(response, result, error):
    called = {"functionCall": {"id": "t1", "name": "stock", "args": {}}}
    answered = {"functionResponse": {"id": "t1", "name": "stock", "response": response}}
    contents = [{"role": "user", "parts": [{"text": "Is it?"}]}]
    contents += [{"role": "model", "parts": [called]}, {"role": "user", "parts": [answered]}]
    logs = [gemini("user_prompt", 1, prompt="Is it?")]
    (call,) = only(
        logs, [gemini_span(7, 2, **{"gen_ai.input.messages": json.dumps(contents)})]
    ).tool_calls
    assert (call.result, call.error) == (result, error)


def test_records_that_belong_to_no_session_are_left_out():
    assert (
        dialects.unit_of(CODEX, "", lambda: {"event.name": "codex.user_prompt"}, of_log=True) == ""
    )


@pytest.mark.parametrize("scope", [CLAUDE_CODE, CODEX, GEMINI])
@pytest.mark.parametrize("value", [None, 7, b"x", [1], {"a": None}, "", "\ud800", '{"a": ['])
def test_no_content_of_a_record_raises(scope, value):
    names = (
        "user_prompt",
        "api_request",
        "api_request_body",
        "tool_result",
        "codex.tool_result",
        "gemini_cli.tool_call",
    )
    keys = (
        "session.id",
        "conversation.id",
        "prompt.id",
        "prompt",
        "body",
        "tool_use_id",
        "duration_ms",
        "tool_parameters",
    )
    logs = [
        record(scope, name, 1, **{key: value}, session__id="s", conversation__id="c")
        for name in names
        for key in keys
    ]
    assert isinstance(rebuild_all([], logs), list)


def test_records_of_no_trace_that_nobody_reads_are_listed_however_they_are_given():
    unknown = record("somebody.elses", "prompt", 1)
    (group,) = unread_all(iter(()), iter((unknown,)))
    assert (group.scope, group.count) == ("somebody.elses", 1)
