"""An SDK's limits on attributes leave no mark: what they cut or dropped is known from what is left, and only then."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from spanscore.dialects._limits import limits
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parents[1] / "golden"
ALL = sorted({x.parent for x in GOLDEN.glob("*/*/*.pb.gz")})
FACTS = (
    *("user_input", "final_output", "system_instructions", "plan", "history"),
    *("available_tools", "tool_calls", "model_calls", "usage"),
)
LOST_IN_SILENCE = {
    ("vercel_ai/stream-text", "tool_calls"),
    ("openinference/shop-agno", "final_output"),
    ("openinference/desk-langgraph-supervisor", "available_tools"),
    ("openinference/desk-llama-index", "available_tools"),
    ("openinference/desk-openai-agents", "available_tools"),
    ("pipecat/shop-text", "usage"),
    *(("litellm/shop-gateway", fact) for fact in ("available_tools", "tool_calls", "model_calls", "usage")),
}
"""What is known to be lost without a sign: of calls that ran at once, the order in which they were asked for; of Agno,
that some text stood beside calls; the tools that another agent of a turn had, if its name is lost with them; that one
span of Pipecat's holds several turns, if nothing is left of what was said in them; and what an application and its
gateway only tell together, where nothing is left by which their reports are known to be one."""

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
    return value[:chars] if isinstance(value, str) else value


def with_cut_values(holder, chars):
    return replace(holder, attributes={key: cut(x, chars) for key, x in holder.attributes.items()})


def with_cut_span(span, chars):
    return replace(with_cut_values(span, chars), events=tuple(with_cut_values(x, chars) for x in span.events))


def with_first_attributes(span, count):
    attributes = dict(list(span.attributes.items())[:count])
    return replace(span, attributes=attributes, dropped_attributes_count=len(span.attributes) - len(attributes))


def with_last_attributes(span, count):
    attributes = dict(list(span.attributes.items())[-count:])
    return replace(span, attributes=attributes, dropped_attributes_count=len(span.attributes) - len(attributes))


def ids(trace):
    return {trace.opening_span_id, *(x.span_id for x in (*trace.model_calls, *(trace.tool_calls or ())))}


def meant(trace, whole):
    """Of the traces of the whole recording, the one that a trace is, or is a part of."""
    return max(whole, key=lambda x: (len(ids(x) & ids(trace)), -abs(x.started_ns - trace.started_ns)))


def is_told(fact, found, whole):
    """Whether a trace tells a fact as the whole one does; tool calls as another source tells them, too.

    Beside the calls of an earlier answer, no text and an empty one are the same.
    """
    if fact == "history":
        found, whole = ([(x.role, x.text or "", x.tool_calls) for x in z] for z in (found, whole))
    if fact == "model_calls":
        found, whole = ([(x.text, [(y.name, y.arguments) for y in x.tool_calls]) for x in z] for z in (found, whole))
    if fact == "tool_calls" and found and whole and len(found) == len(whole):
        return all(map(is_same_call, found, whole))
    return found == whole


def is_same_call(found, whole):
    """Whether two calls are one: a tool's span may add the defaults of arguments, and have its result as text."""
    given = [x.arguments if isinstance(x.arguments, dict) else {"all": x.arguments} for x in (found, whole)]
    is_same = found.name == whole.name and found.error == whole.error and given[0] | given[1] == given[0]
    return is_same and found.result in (whole.result, str(whole.result))


def lost_in_silence(case, spans, logs):
    """The facts that differ from those of the whole recording and are not named as damaged."""
    whole = recorded(case)[2]
    lost = set()
    for trace in rebuild_all(spans, logs):
        same = meant(trace, whole)
        differing = {x for x in FACTS if not is_told(x, getattr(trace, x), getattr(same, x))}
        lost |= {(named(case), x) for x in differing.difference(trace.damaged)}
    return lost - LOST_IN_SILENCE


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
@pytest.mark.parametrize("count", [32, 64])
@pytest.mark.parametrize("case", ALL, ids=named)
def test_with_a_limit_on_the_number_of_attributes_no_fact_is_lost_in_silence(case, count, kept):
    spans, logs, _ = recorded(case)
    assert lost_in_silence(case, [kept(x, count) for x in spans], logs) == set()


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
        limit_of(*(f"{x} of sixty-four characters, which all three of these have now"[:63] + end for x in "abc"))
        is None
    )


def test_ids_and_addresses_of_one_length_show_no_limit():
    assert limit_of(*(f"http://shop:8080/orders/{x}-{x * 39}" for x in "abc")) is None


def test_whole_json_of_one_length_shows_no_limit():
    assert limit_of(*(json.dumps([{"id": x, "text": "a text of some length"}]) for x in "abc")) is None


def test_texts_that_are_shorter_than_the_longest_show_no_limit():
    assert limit_of('{"a": "b', "x" * 200 + " y.") is None


def test_a_limit_shows_in_the_events_of_spans():
    event = Event("gen_ai.user.message", 1, {"content": '{"role": "user", "co'})
    assert limits([holding("a longer text, which is whole.", events=(event,))], {}) == {("shop", "event"): 20}


def test_a_limit_shows_in_log_records():
    record = LogRecord("t", "s", 1, "", None, {"prompt": '{"role": "user", "co'}, RESOURCE, SCOPE)
    assert limits([holding("a longer text, which is whole.")], {"s": [record]}) == {("shop", "log"): 20}


def test_a_limit_that_shows_in_one_place_counts_in_another_where_values_are_that_long():
    event = Event("gen_ai.user.message", 1, {"content": '{"role": "user", "co'})
    found = limits([holding("a text of 20 letters", events=(event,))], {})
    assert found == {("shop", "attribute"): 20, ("shop", "event"): 20}
