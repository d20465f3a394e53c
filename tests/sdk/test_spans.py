"""Spans that the SDK gives in process are those that its exporter sends by OTLP."""

import enum

import pytest
from hypothesis import given, strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from spanscore.otlp import codec
from spanscore.sdk.otel_spans import to_log_record, to_span

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.one_of(
    TEXTS, st.booleans(), NUMBERS, st.floats(allow_nan=False), st.binary(max_size=10), st.none()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=3),
    ),
    max_leaves=10,
)
ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=5)
TIMES = st.integers(0, 2**63)
CONTEXTS = st.builds(
    SpanContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans()
)
SCOPES = st.builds(InstrumentationScope, TEXTS, st.one_of(st.none(), TEXTS))
SPANS = st.builds(
    ReadableSpan,
    TEXTS,
    CONTEXTS,
    st.one_of(st.none(), CONTEXTS),
    st.builds(Resource, ATTRIBUTES),
    ATTRIBUTES,
    st.lists(st.builds(Event, TEXTS, ATTRIBUTES, TIMES), max_size=2),
    st.lists(st.builds(Link, CONTEXTS, ATTRIBUTES), max_size=2),
    st.sampled_from(SpanKind),
    status=st.one_of(
        st.builds(Status, st.just(StatusCode.ERROR), TEXTS),
        st.builds(Status, st.just(StatusCode.OK)),
    ),
    start_time=TIMES,
    end_time=TIMES,
    instrumentation_scope=SCOPES,
)


class Keep(LogRecordProcessor):
    """Keeps what is emitted."""

    def __init__(self):
        self.emitted = []

    def on_emit(self, log_record):
        self.emitted.append(log_record)

    def shutdown(self):
        """Nothing is held."""

    def force_flush(self, timeout_millis=30000):
        return True


class Role(enum.StrEnum):
    USER = "user"


def sent(span):
    """The span after its way through the SDK's own OTLP encoding."""
    return next(
        codec.spans(type(encode_spans([span])).FromString(encode_spans([span]).SerializeToString()))
    )


@pytest.mark.slow
@given(SPANS)
def test_a_span_is_the_one_that_the_exporter_would_send(span):
    assert to_span(span) == sent(span)


def test_a_real_span_is_the_one_that_the_exporter_would_send():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("an.instrumentation", "1.2")
    with (
        tracer.start_as_current_span("turn"),
        tracer.start_as_current_span("chat", kind=SpanKind.CLIENT) as chat,
    ):
        chat.set_attributes(
            {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3, "stop": ["a", "b"]}
        )
        chat.add_event("gen_ai.choice", {"index": 0})
        chat.record_exception(ValueError("no"))
        chat.set_status(Status(StatusCode.ERROR, "no"))
    ended = exporter.get_finished_spans()
    assert [to_span(x) for x in ended] == [sent(x) for x in ended]


@pytest.mark.parametrize("value", [object(), 2**64, {1, 2}, [object()], {"a": {1}}])
def test_an_attribute_that_otlp_has_no_type_for_is_left_out(value):
    span = ReadableSpan(
        "chat", SpanContext(1, 2, is_remote=False), attributes={"odd": value, "plain": 1}
    )
    assert to_span(span).attributes == {"plain": 1}


def test_a_text_that_has_no_utf_8_is_kept_with_its_broken_characters_replaced():
    span = ReadableSpan("chat", SpanContext(1, 2, is_remote=False), attributes={"text": "a\ud800b"})
    assert to_span(span).attributes == {"text": "a�b"}


def test_the_text_of_an_enumeration_is_its_value():
    span = ReadableSpan("chat", SpanContext(1, 2, is_remote=False), attributes={"role": Role.USER})
    assert type(to_span(span).attributes["role"]) is str
    assert to_span(span).attributes == {"role": "user"}


def test_what_lies_too_deep_is_none():
    deep = "bottom"
    for _ in range(codec.MAX_DEPTH + 1):
        deep = [deep]
    span = ReadableSpan("chat", SpanContext(1, 2, is_remote=False), attributes={"deep": deep})
    assert to_span(span) == sent(span)


def test_spans_of_one_resource_share_the_model_of_it():
    resource = Resource({"service.name": "shop"})
    spans = [
        ReadableSpan("chat", SpanContext(1, x, is_remote=False), resource=resource) for x in (2, 3)
    ]
    assert to_span(spans[0]).resource is to_span(spans[1]).resource


LOGGED = {
    "an event": {
        "event_name": "gen_ai.choice",
        "body": {"message": {"role": "assistant", "parts": [1, None]}},
    },
    "a line": {"body": "hello", "timestamp": 5, "observed_timestamp": 6},
    "an event named by an attribute": {"attributes": {"event.name": "gen_ai.user.message", "n": 1}},
    "a record without a time of its own": {"observed_timestamp": 7},
}


@pytest.mark.parametrize("fields", LOGGED.values(), ids=LOGGED)
@pytest.mark.parametrize("in_span", [True, False])
def test_a_log_record_is_the_one_that_the_exporter_would_send(fields, in_span):
    keep = Keep()
    provider = LoggerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_log_record_processor(keep)
    logger = provider.get_logger("an.instrumentation", "1.2")
    if in_span:
        with TracerProvider().get_tracer("t").start_as_current_span("chat"):
            logger.emit(**fields)
    else:
        logger.emit(**fields)
    assert [to_log_record(x) for x in keep.emitted] == list(
        codec.log_records(encode_logs(keep.emitted))
    )


def test_a_body_that_otlp_has_no_type_for_is_none():
    keep = Keep()
    provider = LoggerProvider()
    provider.add_log_record_processor(keep)
    provider.get_logger("t").emit(body=object())
    assert to_log_record(keep.emitted[0]).body is None
