"""What was cut, dropped or redacted on its way is known, and never passed off as whole."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.dialects.forms.truncation import mended
from spanscore.model.span import Event, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild, rebuild_all

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = [
    min(x.glob("*/traces.pb.gz")).parent
    for x in sorted(GOLDEN.iterdir())
    if any(x.glob("*/traces.pb.gz"))
]
"""One of each dialect."""

OPERATION, GIVEN, PRODUCED = (
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
)


def span(span_id, parent="", start=0, dropped=0, dropped_events=0, events=(), **attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    times = (100 + start, 109 + start)
    return Span(
        "t",
        span_id,
        parent,
        "s",
        1,
        *times,
        0,
        "",
        named,
        Resource(),
        Scope(),
        events,
        (),
        dropped,
        dropped_events,
    )


def said(*texts, role="user"):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": x}]} for x in texts])


def chat(span_id="1", given=None, produced=None, **more):
    named = {GIVEN: given, PRODUCED: produced}
    return span(
        span_id,
        gen_ai__operation__name="chat",
        **{k: v for k, v in named.items() if v is not None},
        **more,
    )


def tool(**attributes):
    return span(
        "2", "1", 5, gen_ai__operation__name="execute_tool", gen_ai__tool__name="f", **attributes
    )


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def test_whole_facts_are_not_damaged():
    assert only(chat(given=said("Paris?"), produced=said("15C.", role="assistant"))).damaged == ()


MARKS = (
    *(
        "__REDACTED__",
        "[REDACTED]",
        "<redacted>",
        "[Redacted]",
        "[REDACTED_EMAIL]",
        "[redacted by policy]",
        " [REDACTED] ",
    ),
    *("**REDACTED**", "***REDACTED***", "***", "********", "[Filtered]", "<masked>", "<elided>"),
    *("[Scrubbed due to 'secret']", "<fully masked due to failed mask function>"),
)
NO_MARKS = ("redacted", "[Filters]", "[redactions]", "**", "<b>", "[1]")


@pytest.mark.parametrize("mark", MARKS)
def test_a_redacted_question_is_damaged_and_no_text(mark):
    trace = only(chat(given=said(mark)))
    assert (trace.user_input, "user_input" in trace.damaged) == (None, True)


@pytest.mark.parametrize("mark", ["[REDACTED]", "<masked>", "****"])
def test_who_is_hidden_is_nobody(mark):
    told = {"gen_ai.conversation.id": mark, "user.id": mark, "gen_ai.agent.name": mark}
    trace = only(span("1", gen_ai__operation__name="invoke_agent", **told), chat("2", parent="1"))
    assert (trace.session_id, trace.user_id, trace.agent_name) == (None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "Cancel order [ORDER_ID_1], please.",
        "It was [REDACTED]",
        "Write to <EMAIL_ADDRESS>.",
        "Call **** now.",
        "The card ends in ****1234.",
        "Write to j***@example.com.",
    ],
)
def test_a_mark_inside_a_sentence_damages_it(text):
    trace = only(chat(given=said(text)))
    assert (trace.user_input, trace.damaged) == (text, ("user_input",))


def test_a_tag_around_a_text_is_no_mark():
    trace = only(chat(given=said("<USER_NAME>Ana</USER_NAME> asks.")))
    assert trace.damaged == ()


@pytest.mark.parametrize("text", NO_MARKS)
def test_a_text_with_more_than_a_mark_is_no_mark(text):
    trace = only(chat(given=said(text)))
    assert (trace.user_input, trace.damaged) == (text, ())


def test_the_hidden_argument_of_a_function_is_no_question():
    called = json.dumps({"args": ["[REDACTED]"], "kwargs": {}})
    named = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.name": "f",
        "traceloop.entity.input": called,
    }
    trace = only(span("1", **named), chat("2"))
    assert (trace.user_input, "user_input" in trace.damaged) == (None, True)


@pytest.mark.parametrize(
    "mark", ["...[TRUNCATED]", " [truncated 300 bytes]", "... (truncated)", "<truncated>"]
)
def test_a_text_with_a_mark_at_its_end_is_kept_and_damaged(mark):
    trace = only(chat(given=said("Paris?"), produced=said("It is" + mark, role="assistant")))
    assert (trace.final_output, trace.damaged) == ("It is" + mark, ("final_output", "model_calls"))


def test_a_hesitation_is_no_mark():
    assert only(chat(given=said("Well…"))).damaged == ()


def test_a_long_text_that_ends_in_an_ellipsis_was_cut():
    assert "user_input" in only(chat(given=said("a long story " * 20 + "…"))).damaged


def test_a_cut_message_of_the_past_does_not_damage_the_question():
    past = [{"role": "assistant", "parts": [{"type": "text", "content": "It is [truncated]"}]}]
    trace = only(
        chat(given=json.dumps([*json.loads(said("Paris?")), *past, *json.loads(said("And Rome?"))]))
    )
    assert (trace.user_input, trace.damaged) == ("And Rome?", ("history",))


def test_a_fact_that_another_source_tells_whole_is_not_damaged():
    agent = span("1", gen_ai__operation__name="invoke_agent", **{GIVEN: said("[REDACTED]")})
    trace = only(agent, replace(chat("2", given=said("Paris?")), parent_span_id="1"))
    assert (trace.user_input, trace.damaged) == ("Paris?", ())


def test_whole_arguments_of_the_request_win_over_cut_ones_of_the_span():
    asked = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"q": "Rome"}}],
        }
    ]
    run = tool(
        gen_ai__tool__call__id="c",
        gen_ai__tool__call__arguments='{"q": "Ro',
        gen_ai__tool__call__result="20C",
    )
    trace = only(chat(given=said("?"), produced=json.dumps(asked)), run)
    assert (trace.tool_calls[0].arguments, trace.damaged) == ({"q": "Rome"}, ())


@pytest.mark.parametrize(
    "value", ['{"q": "Ro', "[1, 2", "{'q': 'Ro", "20C [truncated]", "[REDACTED]"]
)
def test_a_tools_result_that_was_cut_or_redacted_damages_the_calls(value):
    assert (
        "tool_calls" in only(chat(given=said("?")), tool(gen_ai__tool__call__result=value)).damaged
    )


def test_an_argument_that_was_scrubbed_damages_the_calls():
    given = json.dumps({"user": "ann", "password": "[Scrubbed due to 'password']"})
    assert (
        "tool_calls"
        in only(chat(given=said("?")), tool(gen_ai__tool__call__arguments=given)).damaged
    )


def test_plain_text_of_the_length_at_which_json_was_cut_was_cut_too():
    request = json.dumps({"messages": "a long request " * 20})[:120]
    answered = {
        "output.value": ("The answer is long. " * 9)[:120],
        "openinference.span.kind": "AGENT",
    }
    trace = only(
        span("1", **answered), replace(chat("2"), attributes={OPERATION: "chat", "raw": request})
    )
    assert ("final_output" in trace.damaged, len(trace.final_output)) == (True, 120)


def test_two_different_texts_of_one_round_greatest_length_were_cut():
    given = {
        "input.value": "Where? " * 20,
        "output.value": "There. " * 20,
        "openinference.span.kind": "AGENT",
    }
    cut = {key: value[:100] for key, value in given.items()} | {"openinference.span.kind": "AGENT"}
    assert {"final_output", "user_input"} <= set(only(span("1", **cut)).damaged)


def test_texts_of_different_lengths_were_not_cut():
    given = {"input.value": "x" * 99, "output.value": "y" * 100, "openinference.span.kind": "AGENT"}
    assert only(span("1", **given)).damaged == ()


def test_what_a_span_that_dropped_attributes_does_not_tell_is_damaged():
    trace = only(chat(given=said("Paris?"), dropped=3))
    assert {"final_output", "available_tools"} <= set(trace.damaged)


@pytest.mark.parametrize(
    "fact", ["system_instructions", "available_tools", "tool_calls", "model_calls"]
)
def test_what_a_span_of_unknown_kind_that_dropped_attributes_may_have_told_is_damaged(fact):
    lost = span("2", "1", dropped=3, input__value="Paris?")
    assert fact in only(chat(given=said("Paris?")), lost).damaged


@pytest.mark.parametrize("key", ["http.route", "db.system"])
def test_a_request_or_query_that_dropped_attributes_damages_nothing(key):
    assert only(chat(given=said("Paris?")), span("2", "1", dropped=3, **{key: "x"})).damaged == ()


def test_a_list_of_attributes_of_which_some_were_dropped_is_damaged():
    listed = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"}
    trace = only(
        span("1", dropped=3, **listed, **{"llm.input_messages.0.message.content": "Paris?"})
    )
    assert "user_input" in trace.damaged


def test_messages_in_events_of_which_some_were_dropped_are_damaged():
    event = Event("gen_ai.user.message", 101, {"content": "Paris?"})
    assert "user_input" in only(chat(events=(event,), dropped_events=2)).damaged


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ('{"a": [1, {"b": "c', '{"a": [1, {"b": "c"}]}'),
        ('{"a": 1, "b"', '{"a": 1}'),
        ("{'a': 'it", "{'a': 'it'}"),
        ('{"a": 1}', None),
        ("[1] is what?", None),
        ("[INFO] it's on", None),
        ("{curly} text", None),
        ("plain", None),
    ],
)
def test_only_what_begins_as_json_and_does_not_end_is_mended(text, closed):
    assert mended(text) == closed


def _cut(value, chars):
    if isinstance(value, list):
        return [_cut(x, chars) for x in value]
    return value[:chars] if isinstance(value, str) else value


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}/{x.name}")
def test_with_a_limit_on_lengths_no_question_or_answer_is_passed_off_as_whole(case):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    whole = {
        (x.trace_ids, x.opening_span_id): x for x in rebuild_all(telemetry.spans, telemetry.logs)
    }
    for chars in (100, 333):  # which are no limits that anybody sets: see test_limits.py for these
        cut = [
            replace(x, attributes={k: _cut(v, chars) for k, v in x.attributes.items()})
            for x in telemetry.spans
        ]
        found = rebuild_all(cut, telemetry.logs)
        # else the turns cannot be told apart any more
        for trace in found if len(found) == len(whole) else ():
            meant = whole.get((trace.trace_ids, trace.opening_span_id), trace)
            for fact in {"user_input", "final_output"}.difference(trace.damaged):
                assert getattr(trace, fact) in (None, getattr(meant, fact)), (chars, fact)


def test_a_span_with_as_many_attributes_as_sdks_keep_lost_some():
    filled = {f"key{x}": "value" for x in range(127)}
    trace = only(span("1", gen_ai__operation__name="chat", **filled))
    assert {"user_input", "final_output", "usage"} <= set(trace.damaged)


def test_tokens_that_are_told_are_not_damaged_by_what_was_dropped():
    counted = {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 1}
    agent = span("1", gen_ai__operation__name="invoke_agent")
    assert "usage" not in only(agent, chat("2", parent="1", dropped=1, **counted)).damaged


def asking(call, *, result=None, **more):
    asked = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": call, "name": "f", "arguments": {"q": 1}}],
        }
    ]
    return replace(
        chat(given=said("Where is it?"), produced=json.dumps(asked)), trace_id=call, **more
    )


def answering(call, *, chars):
    told = [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": call, "response": "in the shop " * 20}],
        }
    ]
    given = json.dumps([*json.loads(said("Where is it?")), *told])[:chars]
    return replace(
        chat("2", start=20, given=given, produced=said("Here.", role="assistant")),
        trace_id="answer",
    )


def test_a_trace_that_joins_no_other_since_its_messages_were_cut_is_damaged_but_for_the_answer():
    *_, answered = rebuild_all([asking("call-1"), answering("call-1", chars=128)])
    facts = {
        "user_input",
        "history",
        "system_instructions",
        "plan",
        "tool_calls",
        "model_calls",
        "usage",
    }
    assert (answered.final_output, set(answered.damaged)) == ("Here.", facts)


def test_a_trace_that_may_go_on_in_one_that_was_cut_is_damaged():
    asked, _ = rebuild_all([asking("call-1"), answering("call-1", chars=128)])
    assert set(asked.damaged) == {"final_output", "tool_calls", "model_calls", "usage"}


def test_a_trace_that_asks_for_tools_after_all_that_was_cut_is_whole():
    asked = rebuild_all(
        [asking("call-1", start_ns=500, end_ns=501), answering("call-1", chars=128)]
    )[-1]
    assert asked.damaged == ()


def test_a_trace_that_asks_for_tools_of_another_service_than_what_was_cut_is_whole():
    asked, _ = rebuild_all(
        [asking("call-1", resource=Resource({"service.name": "b"})), answering("call-1", chars=128)]
    )
    assert asked.damaged == ()
