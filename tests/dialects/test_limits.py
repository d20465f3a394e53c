"""An SDK's limits on attributes leave no mark: what they cut or dropped is known from what is left,
and only then.
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from spanscore.dialects.losses.limits import limits
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parents[1] / "golden"
ALL = sorted({x.parent for x in GOLDEN.glob("*/*/*.pb.gz")})
FACTS = (
    *("user_input", "final_output", "system_instructions", "plan", "history"),
    *("available_tools", "tool_calls", "model_calls", "usage"),
)
ELSEWHERE = ("openinference/desk-mcp", "pydantic_ai/desk-a2a", "semconv/desk-http")
LOST_IN_SILENCE = {
    *((case, fact) for case in ELSEWHERE for fact in FACTS),
    ("openinference/shop-agno", "final_output"),
    ("openinference/desk-langgraph-supervisor", "available_tools"),
    ("openinference/desk-llama-index", "available_tools"),
    ("openinference/desk-openai-agents", "available_tools"),
    ("pipecat/shop-text", "usage"),
    ("mastra/shop-version-0", "model_calls"),
    ("mlflow/shop-stream", "model_calls"),
    ("openllmetry/shop-js-langchain-runs", "history"),
    ("openinference/shop-crewai-listener", "available_tools"),
    *(
        ("litellm/shop-gateway", fact)
        for fact in ("available_tools", "tool_calls", "model_calls", "usage")
    ),
}
"""What is known to be lost without a sign.

Of Agno, that some text stood beside calls; the tools that another agent had, if its name is lost
with them; that one span of Pipecat's holds several turns, if nothing is left of what was said in
them; that a model call only finds a title, if its instructions are lost; calls in dropped events of
a stream. And what is only told together, if nothing is left by which it is known to be one: by an
application and its gateway, by a turn and an agent elsewhere that it asked, whose turn then is one
by itself, and by a chain's runs, each in a trace of its own. CrewAI's tools are then taken whole
from the other instrumentation, which records their arguments as they were sent.
"""

LOST_AT_16 = {
    *(("langsmith/shop-anthropic", fact) for fact in ("history", "user_input")),
    *(
        ("langsmith/shop-openai", x)
        for x in ("final_output", "history", "model_calls", "plan", "user_input")
    ),
    ("openinference/desk-agno", "final_output"),
    ("pipecat/shop", "usage"),
    *((f"strands/{x}", "available_tools") for x in ("shop-latest", "shop-version-1-18")),
}
"""The same of spans that keep 16 attributes: what a span stood for, by which its texts are read,
and its place.
"""

LOST_IN_REDACTIONS = {
    ("langfuse/shop-js-openai", "tool_calls"),
    ("litellm/shop-gateway", "final_output"),
    ("openinference/shop-beeai", "user_input"),
    ("openllmetry/shop-js-langchain", "final_output"),
    *(("openlit/shop-version-1-36", fact) for fact in ("history", "tool_calls")),
    *(
        (f"pipecat/{x}", fact)
        for x in ("shop", "shop-text")
        for fact in ("plan", "tool_calls", "final_output")
    ),
}
"""The same of what a redaction took away: order, envelopes, and what is read where several spans
are seen together.
"""

COUNT, KEYS = "redaction.masked.count", "redaction.masked.keys"
RESOURCE, SCOPE = Resource({"service.name": "shop"}), Scope("test")


def named(case):
    return f"{case.parent.name}/{case.name}"


@cache
def recorded(case):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    spans, logs = list(telemetry.spans), list(telemetry.logs)
    return spans, logs, rebuild_all(spans, logs)


def cut(value, chars):
    if isinstance(value, list):
        return [cut(x, chars) for x in value]
    if isinstance(value, dict):
        return {key: cut(x, chars) for key, x in value.items()}
    return value[:chars] if isinstance(value, str) else value


def with_cut_values(holder, chars):
    return replace(holder, attributes={key: cut(x, chars) for key, x in holder.attributes.items()})


def with_cut_span(span, chars):
    return replace(
        with_cut_values(span, chars), events=tuple(with_cut_values(x, chars) for x in span.events)
    )


def with_first_attributes(span, count):
    attributes = dict(list(span.attributes.items())[:count])
    return replace(
        span, attributes=attributes, dropped_attributes_count=len(span.attributes) - len(attributes)
    )


def with_last_attributes(span, count):
    attributes = dict(list(span.attributes.items())[-count:])
    return replace(
        span, attributes=attributes, dropped_attributes_count=len(span.attributes) - len(attributes)
    )


def with_first_events(span, count):
    return replace(
        span, events=span.events[:count], dropped_events_count=max(0, len(span.events) - count)
    )


def with_last_events(span, count):
    return replace(
        span, events=span.events[-count:], dropped_events_count=max(0, len(span.events) - count)
    )


def with_first_attributes_of_events(span, count):
    return replace(span, events=tuple(with_first_attributes(x, count) for x in span.events))


def with_masks(holder, noted):
    """As the Collector's redaction masks numbers of articles, cities and parcels, which it may
    tell, or only count.
    """
    masked = {
        key: re.sub(r"00042|Tokyo|[Pp]arcel", "****", x) if isinstance(x, str) else x
        for key, x in holder.attributes.items()
    }
    keys = [key for key, x in holder.attributes.items() if masked[key] != x]
    notes = {"redaction.masked.count": len(keys), "redaction.masked.keys": ",".join(keys)}
    return replace(holder, attributes={**masked, **{key: notes[key] for key in noted if keys}})


def with_masked_span(span, noted):
    return replace(with_masks(span, noted), events=tuple(with_masks(x, noted) for x in span.events))


def without_messages(span, noted):
    """As the Collector's redaction deletes what it does not know."""
    keys = [key for key, x in span.attributes.items() if isinstance(x, str) and len(x) > 200]
    notes = {"redaction.redacted.count": len(keys), "redaction.redacted.keys": ",".join(keys)}
    left = {key: x for key, x in span.attributes.items() if key not in keys}
    return replace(span, attributes={**left, **{key: notes[key] for key in noted if keys}})


def ids(trace):
    return {
        trace.opening_span_id,
        *(x.span_id for x in (*trace.model_calls, *(trace.tool_calls or ()))),
    }


def meant(trace, whole):
    """Of the traces of the whole recording, the one that a trace is, or is a part of."""
    return max(
        whole, key=lambda x: (len(ids(x) & ids(trace)), -abs(x.started_ns - trace.started_ns))
    )


def is_told(fact, found, whole):
    """Whether a trace tells a fact as the whole one does; tool calls as another source tells them,
    too.

    Beside the calls of an earlier answer, no text and an empty one are the same.
    """
    if fact == "history":
        found, whole = (
            [(x.role, x.text or "", x.tool_calls) for x in z or ()] for z in (found, whole)
        )
    if fact == "model_calls":
        found, whole = (
            [(x.text, [(y.name, y.arguments) for y in x.tool_calls]) for x in z]
            for z in (found, whole)
        )
    if fact == "tool_calls" and found and whole and len(found) == len(whole):
        return all(map(is_same_call, found, whole))
    return found == whole


def is_same_call(found, whole):
    """Whether two calls are one: a tool's span may add the defaults of arguments, and have its
    result as text.
    """
    given = [
        x.arguments if isinstance(x.arguments, dict) else {"all": x.arguments}
        for x in (found, whole)
    ]
    is_same = (
        found.name == whole.name and found.error == whole.error and given[0] | given[1] == given[0]
    )
    return is_same and found.result in (whole.result, str(whole.result))


def lost_in_silence(case, spans, logs, known=frozenset()):
    """The facts that differ from those of the whole recording and are not named as damaged."""
    *recording, whole = recorded(case)
    if [spans, logs] == recording:
        return set()
    lost = set()
    for trace in rebuild_all(spans, logs):
        same = meant(trace, whole)
        differing = {x for x in FACTS if not is_told(x, getattr(trace, x), getattr(same, x))}
        lost |= {(named(case), x) for x in differing.difference(trace.damaged)}
    return lost - LOST_IN_SILENCE - known


@pytest.mark.parametrize("case", ALL, ids=named)
def test_nothing_of_a_whole_recording_is_damaged(case):
    assert [x.damaged for x in recorded(case)[2] if x.damaged] == []


@pytest.mark.parametrize("chars", [64, 256, 1024, 4096])
@pytest.mark.parametrize("case", ALL, ids=named)
def test_with_a_limit_on_lengths_no_fact_is_lost_in_silence(case, chars):
    spans, logs, _ = recorded(case)
    cut_logs = [with_cut_values(x, chars) for x in logs]
    assert lost_in_silence(case, [with_cut_span(x, chars) for x in spans], cut_logs) == set()


@pytest.mark.parametrize("kept", [with_first_attributes, with_last_attributes])
@pytest.mark.parametrize("count", [16, 32, 64, 128])
@pytest.mark.parametrize("case", ALL, ids=named)
def test_with_a_limit_on_the_number_of_attributes_no_fact_is_lost_in_silence(case, count, kept):
    spans, logs, _ = recorded(case)
    known = LOST_AT_16 if count == 16 else frozenset()
    assert lost_in_silence(case, [kept(x, count) for x in spans], logs, known) == set()


@pytest.mark.parametrize(
    "way", [with_first_events, with_last_events, with_first_attributes_of_events]
)
@pytest.mark.parametrize("case", ALL, ids=named)
def test_with_a_limit_on_events_no_fact_is_lost_in_silence(case, way):
    spans, logs, _ = recorded(case)
    assert lost_in_silence(case, [way(x, 1) for x in spans], logs) == set()


@pytest.mark.parametrize("case", ALL, ids=named)
def test_with_a_limit_on_the_attributes_of_log_records_no_fact_is_lost_in_silence(case):
    spans, logs, _ = recorded(case)
    assert lost_in_silence(case, spans, [with_first_attributes(x, 16) for x in logs]) == set()


@pytest.mark.parametrize("noted", [(COUNT,), (COUNT, KEYS)], ids=["counted", "named"])
@pytest.mark.parametrize("case", ALL, ids=named)
def test_what_a_redaction_masked_in_texts_is_not_lost_in_silence(case, noted):
    spans, logs, _ = recorded(case)
    masked, masked_logs = (
        [with_masked_span(x, noted) for x in spans],
        [with_masks(x, noted) for x in logs],
    )
    assert lost_in_silence(case, masked, masked_logs, LOST_IN_REDACTIONS) == set()


@pytest.mark.parametrize("case", ALL, ids=named)
def test_what_a_redaction_deleted_is_not_lost_in_silence(case):
    spans, logs, _ = recorded(case)
    noted = ("redaction.redacted.count", "redaction.redacted.keys")
    assert (
        lost_in_silence(case, [without_messages(x, noted) for x in spans], logs, LOST_IN_REDACTIONS)
        == set()
    )


def holding(*texts, events=()):
    attributes = {f"key{at}": x for at, x in enumerate(texts)}
    return Span("t", "s", "", "x", 1, 1, 2, 0, "", attributes, RESOURCE, SCOPE, events)


def limit_of(*texts, **more):
    return limits([holding(*texts, **more)], {}).get(("shop", "attribute"))


def test_json_that_just_ends_shows_the_limit():
    assert limit_of(json.dumps([{"role": "user", "content": "Hello"}])[:20]) == 20


def test_a_text_that_ends_in_no_way_shows_a_limit_that_is_a_power_of_two():
    assert limit_of("where is my parcel " * 4 + "no") is None
    assert limit_of(("where is my parcel " * 4)[:64]) == 64


def test_two_texts_that_end_in_no_way_show_a_limit_that_is_a_round_number():
    assert limit_of(("where is my parcel " * 6)[:100]) is None
    assert limit_of(("where is my parcel " * 6)[:100], ("it is in the shop " * 6)[:100]) == 100


def test_three_texts_that_end_in_no_way_show_any_limit():
    texts = [(x * 9)[:39] for x in ("where is it ", "in the shop ", "and the bill ")]
    assert (limit_of(*texts[:2]), limit_of(*texts)) == (None, 39)


@pytest.mark.parametrize("end", [".", "?", "!", '"', ")", "。"])
def test_texts_that_end_as_texts_do_show_no_limit(end):
    assert (
        limit_of(
            *(
                f"{x} of sixty-four characters, which all three of these have now"[:63] + end
                for x in "abc"
            )
        )
        is None
    )


def test_ids_and_addresses_of_one_length_show_no_limit():
    assert limit_of(*(f"http://shop:8080/orders/{x}-{x * 39}" for x in "abc")) is None


def test_whole_json_of_one_length_shows_no_limit():
    assert (
        limit_of(*(json.dumps([{"id": x, "text": "a text of some length"}]) for x in "abc")) is None
    )


def test_texts_that_are_shorter_than_the_longest_show_no_limit():
    assert limit_of('{"a": "b', "x" * 200 + " y.") is None


def test_a_limit_shows_in_the_events_of_spans():
    event = Event("gen_ai.user.message", 1, {"content": '{"role": "user", "co'})
    assert limits([holding("a longer text, which is whole.", events=(event,))], {}) == {
        ("shop", "event"): 20
    }


def test_a_limit_shows_in_log_records():
    record = LogRecord("t", "s", 1, "", None, {"prompt": '{"role": "user", "co'}, RESOURCE, SCOPE)
    assert limits([holding("a longer text, which is whole.")], {"s": [record]}) == {
        ("shop", "log"): 20
    }


def test_a_limit_shows_in_texts_inside_the_messages_of_log_records():
    content = ("where is my parcel " * 4)[:64]
    record = LogRecord(
        "t", "s", 1, "", None, {"gen_ai.input.messages": [{"content": content}]}, RESOURCE, SCOPE
    )
    assert limits([], {"s": [record]}) == {("shop", "log"): 64}


def test_a_limit_in_bytes_shows_where_the_longest_text_is_not_ascii():
    text = "wo ist mein Päckchen für Zürich " * 4
    assert limit_of(text[:100]) is None
    assert limit_of(text.encode()[:128].decode(errors="replace")) == 128


@pytest.mark.parametrize(
    "text",
    ["No idea...", "**Bold** and ***", "a **** b", "[see below]", "1 of [3 lines]", "***b***"],
)
def test_texts_that_only_look_like_marks_are_whole(text):
    said = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": text,
        "gen_ai.completion.0.content": text,
    }
    (trace,) = rebuild_all(
        [replace(holding(), attributes={"llm.request.type": "chat", **said})], []
    )
    assert (trace.user_input, trace.damaged) == (text, ())


def test_a_limit_that_shows_in_one_place_counts_in_another_where_values_are_that_long():
    event = Event("gen_ai.user.message", 1, {"content": '{"role": "user", "co'})
    found = limits([holding("a text of 20 letters", events=(event,))], {})
    assert found == {("shop", "attribute"): 20, ("shop", "event"): 20}


def chatted(**more):
    """A model call that a user asked a question with a number in."""
    said = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Call ****, please.",
    }
    answered = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "I do."}
    return replace(holding(), attributes={**said, **answered, "http.route": "/chat", **more})


def damaged(span):
    (trace,) = rebuild_all([span], [])
    return trace.damaged


def test_a_mask_in_a_value_that_a_redaction_names_damages_what_rests_on_it():
    assert damaged(chatted(**{COUNT: 1, KEYS: "gen_ai.prompt.0.content"})) == ("user_input",)


def test_a_mask_counts_where_a_redaction_only_counted_the_values():
    assert damaged(chatted(**{COUNT: 1})) == ("user_input",)


def test_a_mask_that_a_redaction_made_elsewhere_damages_nothing():
    assert damaged(chatted(**{COUNT: 1, KEYS: "http.route"})) == ()


def test_what_a_redaction_deleted_of_requests_alone_damages_nothing():
    deleted = {"redaction.redacted.count": 2, "redaction.redacted.keys": "http.url,server.address"}
    assert damaged(chatted(**deleted)) == ()


def test_what_a_redaction_deleted_may_have_told_what_is_missing():
    deleted = {
        "redaction.redacted.count": 1,
        "redaction.redacted.keys": "llm.request.functions.0.name",
    }
    assert "available_tools" in damaged(chatted(**deleted))


def test_dropped_links_may_have_joined_a_turn_to_others():
    assert {"user_input", "final_output", "usage"} < set(
        damaged(replace(chatted(), dropped_links_count=1))
    )
