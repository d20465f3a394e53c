"""Fuzzed readers: every key that a golden case has, with any value; and golden cases with something
broken in them.
"""

import gzip
import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings, strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore import dialects
from spanscore.dialects import all_dialects
from spanscore.dialects.registry import registry
from spanscore.model.json import dumps
from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.model.trace import AgentTrace
from spanscore.otlp import check, codec, files
from spanscore.otlp.check import mend
from spanscore.rebuild import rebuild, rebuild_all

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = [x.name for x in all_dialects()]
SIDE_BY_SIDE = set(registry().refining)
CASES = sorted(x.parent for x in GOLDEN.glob("*/*/SOURCE"))
WITH_LOGS = sorted(x.parent for x in GOLDEN.glob("*/*/logs.pb.gz"))
WITH_SPANS = sorted(x.parent for x in GOLDEN.glob("*/*/traces.pb.gz"))
TRACES_ALONE = [x for x in WITH_SPANS if not (x / "logs.pb.gz").exists()]
"""Without log records, which find the span that they are about by what the spans around them
say.
"""

some = settings(
    max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
NESTED = [[]]
for _ in range(90):
    NESTED = [NESTED]
JUNK = (
    *(
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        math.nan,
        math.inf,
        1e308,
        b"",
        b"\xff\xfe",
        "",
        " ",
        "0",
    ),
    *(
        [],
        {},
        NESTED,
        [None],
        {"": None},
        "[" * 5_000,
        '{"a":' * 500,
        "{",
        '"',
        "\x00",
        "null",
        "[null]",
        "NaN",
    ),
    *(
        "{'a': ",
        "('x',)",
        "[REDACTED]",
        '[{"role": "user"',
        '{"__proto__": 1}',
        "-" * 5_000,
        "A(b='" * 1_000,
    ),
)


@cache
def telemetry(case):
    return files.load(sorted(case.glob("*.pb.gz")))


@cache
def seen(name):
    """The attributes of a dialect's golden spans, key -> values; and the same of events and of log
    records.
    """
    cases = [telemetry(x) for x in CASES if x.parent.name == name]
    on_spans, on_events, on_logs = defaultdict(list), defaultdict(list), defaultdict(list)
    for case in cases:
        for span in case.spans:
            _add(on_spans, span.attributes)
            for event in span.events:
                _add(on_events, {"name": event.name, **event.attributes})
        for log in case.logs:
            _add(on_logs, {"name": log.event_name, "body": log.body, **log.attributes})
    return on_spans, on_events, on_logs


def _add(known, attributes):
    for key, value in attributes.items():
        for each in {key, re.sub(r"\d+", "999999999", key)}:
            if len(known[each]) < 20 and len(str(value)) < 3_000:
                known[each].append(value)


def values(known):
    """Junk; a value recorded under any key, as it was, cut, encoded once more, or with something
    broken inside.
    """
    recorded = st.sampled_from([x for held in known.values() for x in held] or [""])
    texts = recorded.map(lambda x: x if isinstance(x, str) else dumps(x))
    return st.one_of(
        st.sampled_from(JUNK),
        recorded,
        st.tuples(texts, st.integers(0, 200)).map(lambda x: x[0][: x[1]]),
        texts.map(json.dumps),
        st.tuples(recorded, st.randoms(use_true_random=False)).map(lambda x: broken(*x)),
        st.lists(recorded, max_size=2),
    )


def broken(value, chance):
    """`value`, or the JSON in it, with one thing inside replaced by junk."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return value[: len(value) // 2]
        return json.dumps(broken(inner, chance), default=str)
    if isinstance(value, dict) and value:
        key = chance.choice(sorted(value))
        return {
            **value,
            key: chance.choice(JUNK) if chance.random() < 0.4 else broken(value[key], chance),
        }
    if isinstance(value, list) and value:
        i = chance.randrange(len(value))
        inner = chance.choice(JUNK) if chance.random() < 0.4 else broken(value[i], chance)
        return [*value[:i], inner, *value[i + 1 :]]
    return chance.choice(JUNK)


@cache
def attributes(name):
    """Any attributes of spans, of events and of log records with the keys of a dialect."""
    return [
        st.dictionaries(st.sampled_from(sorted(x) or ["x"]), values(x), max_size=12)
        for x in seen(name)
    ]


@cache
def names(name):
    """The names of scopes and of spans that a dialect's own have."""
    dialect, spans = next(x for x in all_dialects() if x.name == name), _golden_spans(name)
    scopes = (*dialect.scopes, "", *sorted({x.scope.name for x in spans}))
    return st.sampled_from(scopes), st.sampled_from(sorted({x.name for x in spans}) or ["x"])


@st.composite
def hostile(draw, name):
    """Spans and log records with the keys of a dialect, in any shape of a tree."""
    (on_spans, on_events, on_logs), (scopes, span_names) = attributes(name), names(name)
    ids, times = st.sampled_from(("1", "2", "3")), st.sampled_from((0, 1, 2, 2**63))
    spans = []
    for _ in range(draw(st.integers(1, 4))):
        events = [
            Event(str(x.pop("name", "e")), draw(times), x)
            for x in draw(st.lists(on_events, max_size=2))
        ]
        place = (
            "t",
            draw(ids),
            draw(ids | st.just("")),
            draw(span_names),
            1,
            draw(times),
            draw(times),
        )
        held = draw(on_spans), Resource(), Scope(draw(scopes)), tuple(events)
        spans.append(Span(*place, draw(st.integers(0, 2)), "", *held))
    logs = [
        LogRecord(
            "t",
            draw(ids),
            draw(times),
            str(x.pop("name", "")),
            x.pop("body", None),
            x,
            Resource(),
            Scope(),
        )
        for x in draw(st.lists(on_logs, max_size=2))
    ]
    return spans, logs


@cache
def _golden_spans(name):
    return [span for x in CASES if x.parent.name == name for span in telemetry(x).spans]


def recordings_with_keys(name):
    """Key of a dialect's log records -> its first recording that has it."""
    found = {}
    for case in (x for x in WITH_LOGS if x.parent.name == name):
        for log in telemetry(case).logs:
            found = dict.fromkeys(log.attributes, case) | found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({x.parent.name for x in WITH_LOGS}))
def test_an_array_under_any_key_of_the_log_records_of_a_dialect_is_survived(name):
    for key, case in recordings_with_keys(name).items():
        recorded = telemetry(case)
        logs = [replace(x, attributes={**x.attributes, key: []}) for x in recorded.logs]
        for trace in rebuild_all(recorded.spans, logs):
            dumps(trace.to_json())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_any_value_under_any_key_is_survived(name):
    @some
    @given(hostile(name))
    def survives(given_telemetry):
        for trace in rebuild(*given_telemetry):
            assert (
                AgentTrace.from_json(json.loads(dumps(trace.to_json()))).user_input
                == trace.user_input
            )

    survives()


@st.composite
def damaged(draw):
    """A golden case, and the same with one attribute of one span broken; and which span that is."""
    case = draw(st.sampled_from(TRACES_ALONE))
    spans = telemetry(case).spans
    number = draw(st.integers(0, len(spans) - 1))
    span = spans[number]
    if not span.attributes:
        return case, spans, span
    key = draw(st.sampled_from(sorted(span.attributes)))
    value = draw(
        st.sampled_from(JUNK)
        | st.randoms(use_true_random=False).map(lambda x: broken(span.attributes[key], x))
    )
    other = replace(span, attributes={**span.attributes, key: value})
    return case, [*spans[:number], other, *spans[number + 1 :]], other


@pytest.mark.slow
@settings(some, max_examples=50)
@given(damaged())
def test_a_broken_attribute_costs_no_other_span(given_case):
    case, spans, changed = given_case
    logs = telemetry(case).logs
    before, after = (steps(x, logs) for x in (telemetry(case).spans, spans))
    if before.get(changed.span_id, ("",))[0] == after.get(changed.span_id, ("",))[0]:
        before.pop(changed.span_id, None)
        after.pop(changed.span_id, None)
        assert after == before


def steps(spans, logs):
    """Span id -> dialect and what was read, for the spans that a dialect reads, where it reads each
    by itself.
    """
    found = {}
    for trace_id in {x.trace_id for x in spans}:
        of_trace = (
            [x for x in spans if x.trace_id == trace_id],
            [x for x in logs if x.trace_id == trace_id],
        )
        for part in dialects.split_units(*of_trace):
            found |= {
                x.span.span_id: (x.dialect, None if x.dialect in SIDE_BY_SIDE else x)
                for x in dialects.read(*part).steps
            }
    return found


@st.composite
def mutated(draw):
    """A golden case with spans and records left out, sent twice, moved in time, hung elsewhere, or
    broken.
    """
    held = telemetry(draw(st.sampled_from(WITH_SPANS)))
    chance = draw(st.randoms(use_true_random=False))
    spans = [y for x in held.spans for y in _mutations(x, held.spans, chance)]
    logs = [x for x in held.logs if chance.random() > 0.2]
    chance.shuffle(spans)
    return spans, [replace(x, time_ns=0) if chance.random() < 0.3 else x for x in logs]


def _mutations(span, spans, chance):
    other = chance.choice(spans)
    kept = {x: y for x, y in span.attributes.items() if chance.random() < 0.5}
    broken_ones = {x: broken(y, chance) for x, y in span.attributes.items()}
    return chance.choice(
        (
            [],
            [span],
            [span, span],
            [replace(span, parent_span_id=other.span_id)],
            [replace(span, start_ns=span.end_ns + 1, end_ns=span.start_ns)],
            [replace(span, span_id=other.span_id)],
            [replace(span, attributes=broken_ones)],
            [replace(span, attributes=kept)],
        )
    )


@pytest.mark.slow
@some
@given(mutated())
def test_mutated_recordings_are_survived(given_telemetry):
    for trace in rebuild_all(*given_telemetry):
        assert json.loads(dumps(trace.to_json()))


@st.composite
def flipped(draw):
    """The bytes of a golden case's request, some of them changed, lost or doubled."""
    content = bytearray(
        gzip.decompress((draw(st.sampled_from(WITH_SPANS)) / "traces.pb.gz").read_bytes())
    )
    for place in draw(st.lists(st.floats(0, 0.999), min_size=1, max_size=8)):
        at = int(place * len(content))
        content[at : at + 1] = draw(
            st.sampled_from((b"", b"\x00", b"\xff", b"\x7f", b'"', bytes(content[at : at + 9])))
        )
    return bytes(content)


@settings(some, max_examples=30)
@given(flipped())
def test_mutated_bytes_are_refused_or_read(content):
    try:
        request = ExportTraceServiceRequest.FromString(content)
    except DecodeError:
        try:
            request = ExportTraceServiceRequest.FromString(mend("traces", content).body)
        except ValueError:
            return
    check.remove_damaged(request)
    for trace in rebuild_all(codec.spans(request)):
        assert json.loads(dumps(trace.to_json()))


BAD_PARTS = (
    None,
    7,
    [],
    [[]],
    {},
    {"type": []},
    {"type": "text"},
    {"type": "tool_call"},
    {"type": {"type": 1}},
)


@st.composite
def bad_part_among_good_ones(draw):
    """A golden case, and the same with one bad part put into a list of message parts."""
    case = draw(st.sampled_from(WITH_SPANS))
    bad, chance = draw(st.sampled_from(BAD_PARTS)), draw(st.randoms(use_true_random=False))
    spans = telemetry(case).spans
    places = [
        (i, key)
        for i, x in enumerate(spans)
        for key, y in x.attributes.items()
        if _lists_of_parts(y)[1]
    ]
    if not places:
        return case, spans
    number, key = draw(st.sampled_from(places))
    span = spans[number]
    value, lists = _lists_of_parts(span.attributes[key])
    parts = chance.choice(lists)
    parts.insert(chance.randint(0, len(parts)), bad)
    other = replace(span, attributes={**span.attributes, key: json.dumps(value)})
    return case, [*spans[:number], other, *spans[number + 1 :]]


def _lists_of_parts(text):
    """The JSON in an attribute, and the lists of parts in its messages; what a tool says may be a
    list of its own.
    """
    if not isinstance(text, str) or not text.startswith(("[{", '{"messages')):
        return None, []
    try:
        value = json.loads(text)
    except ValueError:
        return None, []
    found = value["messages"] if isinstance(value, dict) else value
    held = [
        x.get(key)
        for x in found
        if isinstance(x, dict) and x.get("role", "tool") != "tool"
        for key in ("parts", "content")
    ]
    return value, [
        x
        for x in held
        if isinstance(x, list) and all(isinstance(y, dict) and "type" in y for y in x)
    ]


@pytest.mark.slow
@settings(some, max_examples=40)
@given(bad_part_among_good_ones())
def test_a_bad_part_costs_no_other_part(given_case):
    case, spans = given_case
    held = telemetry(case)

    def said(traces):
        return [
            (
                x.user_input,
                x.final_output,
                [(y.name, y.arguments, y.result) for y in x.tool_calls or ()],
            )
            for x in traces
        ]

    assert said(rebuild_all(spans, held.logs)) == said(rebuild_all(held.spans, held.logs))
