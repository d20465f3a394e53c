"""An SDK's limits on attributes leave no mark: what they cut or dropped is known from what is left,
and only then.
"""

import json
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.dialects.losses import limits
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parents[1] / "golden"
NOT_WHOLE = {
    *("semconv/uploaded", "semconv/meaning-masked", "semconv/meaning-parts"),
    *("semconv/meaning-partial", "litellm/shop-in-span"),
}
"""Cases of which something is damaged from the beginning."""

_FOLDERS = {x.parent for x in GOLDEN.glob("*/*/*.pb.gz")}
ALL = sorted(_FOLDERS - {GOLDEN / x for x in NOT_WHOLE})
FACTS = (
    *("user_input", "final_output", "system_instructions", "plan", "history"),
    *("available_tools", "tool_calls", "model_calls", "usage"),
)
ASKED = ("final_output", "system_instructions", "user_input")
KNOWN_LOSSES = {
    # Told together by an application and its gateway, by a turn and an agent elsewhere that it
    # asked, or by a chain's runs: each is a trace of its own where nothing shows that they are one.
    "litellm/shop-gateway": {
        "lengths": {"available_tools"},
        "16 attributes": {"tool_calls"},
        "attributes": {"tool_calls"},
        "redaction": {"final_output"},
    },
    "openinference/desk-mcp": {"16 attributes": {*ASKED}},
    "openllmetry/shop-js-langchain-runs": {"redaction": {"history"}},
    "pydantic_ai/desk-a2a": {
        "16 attributes": {"final_output", "user_input"},
        "redaction": {"system_instructions", "tool_calls", "usage", "user_input"},
    },
    "semconv/desk-http": {"lengths": {*ASKED}, "redaction": {*ASKED}},
    # Only the next request tells which result is whose, and it was cut.
    "semconv/meaning-pairing": {"lengths": {"tool_calls"}},
    # Some text stood beside calls.
    "openinference/desk-agno": {"16 attributes": {"final_output"}},
    "openinference/shop-agno": {"16 attributes": {"final_output"}, "attributes": {"final_output"}},
    # A span holds several turns, and nothing is left of what was said in them.
    "pipecat/shop": {"16 attributes": {"usage"}, "redaction": {"plan", "tool_calls"}},
    "pipecat/shop-text": {"redaction": {"final_output", "plan", "tool_calls", "usage"}},
    # A model call only finds a title, which its instructions say.
    "mastra/shop-version-0": {"lengths": {"model_calls"}},
    # Model calls have no spans: their records are found by what is left of their agent's, or only
    # what the agent returned contains them.
    "google_adk/openinference-agent-span": {"16 attributes": {"model_calls", "plan", "usage"}},
    "openinference/haystack-stream": {"lengths": {"tool_calls"}, "redaction": {"tool_calls"}},
    # Calls are in the dropped events of a stream.
    "mlflow/shop-stream": {"events": {"model_calls"}},
    # Tools are then taken whole from another instrumentation, which records arguments as sent.
    "openinference/shop-crewai-listener": {"lengths": {"available_tools"}},
    # The agent's own span and place.
    **{
        f"strands/{x}": {"16 attributes": {"available_tools"}}
        for x in ("shop-latest", "shop-version-1-18")
    },
    # Order, envelopes, and what is read where several spans are seen together.
    "langfuse/shop-js-openai": {"redaction": {"tool_calls"}},
    "openinference/shop-beeai": {"redaction": {"user_input"}},
    "openlit/shop-version-1-36": {"redaction": {"history"}},
}
"""Recording -> kind of limit -> the facts that are known to be lost without a sign."""

COUNT, KEYS = "redaction.masked.count", "redaction.masked.keys"
RESOURCE, SCOPE = Resource({"service.name": "shop"}), Scope("test")


def named(case):
    return f"{case.parent.name}/{case.name}"


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
    """As the Collector's redaction masks numbers of articles, cities and parcels, and counts it."""
    masked = {
        key: re.sub(r"00042|Tokyo|[Pp]arcel", "****", x) if isinstance(x, str) else x
        for key, x in holder.attributes.items()
    }
    keys = [key for key, x in holder.attributes.items() if masked[key] != x]
    notes = {"redaction.masked.count": len(keys), "redaction.masked.keys": ",".join(keys)}
    return replace(holder, attributes={**masked, **{key: notes[key] for key in noted if keys}})


def with_masked_span(span, noted):
    return replace(with_masks(span, noted), events=tuple(with_masks(x, noted) for x in span.events))


def without_messages(span):
    """As the Collector's redaction deletes what it does not know, which it notes."""
    keys = [key for key, x in span.attributes.items() if isinstance(x, str) and len(x) > 200]
    notes = {"redaction.redacted.count": len(keys), "redaction.redacted.keys": ",".join(keys)}
    left = {key: x for key, x in span.attributes.items() if key not in keys}
    return replace(span, attributes=left | (notes if keys else {}))


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
    if fact == "usage":  # cached and reasoning tokens are parts of these, which few emitters record
        found, whole = ((x.input_tokens, x.output_tokens) for x in (found, whole))
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


def limited(spans, logs):
    """What arrives of a recording: the kind of limit, the limit, and what it left."""
    for chars in (256, 1000, 4096):  # powers of two show in one text, a round number in two
        cut = [with_cut_span(x, chars) for x in spans], [with_cut_values(x, chars) for x in logs]
        yield "lengths", f"{chars} characters", *cut
    for way in (with_first_attributes, with_last_attributes):
        for kind, count in (("16 attributes", 16), ("attributes", 32), ("attributes", 64)):
            yield kind, f"{way.__name__} {count}", [way(x, count) for x in spans], logs
    for way in (with_first_events, with_last_events, with_first_attributes_of_events):
        yield "events", f"{way.__name__} 1", [way(x, 1) for x in spans], logs
    yield "log records", "16 attributes", spans, [with_first_attributes(x, 16) for x in logs]
    # the names of the keys, which it may add, only narrow down what the count damages
    masked = [with_masked_span(x, (COUNT,)) for x in spans], [with_masks(x, (COUNT,)) for x in logs]
    yield "redaction", "masked", *masked
    yield "redaction", "deleted", [without_messages(x) for x in spans], logs


def lost_in_silence(spans, logs, whole):
    """The facts that differ from those of the whole recording and are not named as damaged."""
    lost = set()
    for trace in rebuild_all(spans, logs):
        same = meant(trace, whole)
        differing = {x for x in FACTS if not is_told(x, getattr(trace, x), getattr(same, x))}
        lost |= differing.difference(trace.damaged)
    return lost


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=named)
def test_what_limits_and_redactions_take_from_a_recording_is_not_lost_in_silence(case):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    spans, logs = telemetry.spans, telemetry.logs
    whole = rebuild_all(spans, logs)
    lost, by = defaultdict(set), {}
    for kind, limit, *left in limited(spans, logs):
        found = set() if left == [spans, logs] else lost_in_silence(*left, whole)
        if found:
            lost[kind] |= found
            by[kind, limit] = found
    damaged = [x.damaged for x in whole if set(x.damaged) - {"usage"}]
    assert damaged == [], "nothing of a whole recording is damaged, but tokens that nobody counted"
    assert lost == KNOWN_LOSSES.get(named(case), {}), by


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
    "text", ["No idea...", "**Bold** and ***", "[see below]", "1 of [3 lines]", "***b***"]
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


UNMASKED = {"gen_ai.prompt.0.content": "Call me, please."}


def damaged(span):
    (trace,) = rebuild_all([span], [])
    return trace.damaged


def test_a_mask_in_a_value_that_a_redaction_names_damages_what_rests_on_it():
    assert damaged(chatted(**{COUNT: 1, KEYS: "gen_ai.prompt.0.content"})) == ("user_input",)


def test_a_mask_counts_where_a_redaction_only_counted_the_values():
    assert damaged(chatted(**{COUNT: 1})) == ("user_input",)


def test_a_mask_that_a_redaction_made_elsewhere_damages_nothing():
    assert damaged(chatted(**{COUNT: 1, KEYS: "http.route", **UNMASKED})) == ()


def test_what_a_redaction_deleted_of_requests_alone_damages_nothing():
    deleted = {"redaction.redacted.count": 2, "redaction.redacted.keys": "http.url,server.address"}
    assert damaged(chatted(**deleted, **UNMASKED)) == ()


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
