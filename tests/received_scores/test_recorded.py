"""What `spanscore.record_score` writes reads back as who recorded it meant it."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import spanscore
from spanscore.received_scores import read_external
from spanscore.sdk.otel_spans import to_span

TRACE, PARENT = "a" * 32, "b" * 16


@pytest.fixture
def recorded(monkeypatch):
    """Calls `record_score` and reads what it emitted."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(
        "opentelemetry.trace.get_tracer", lambda name, *_args, **_more: provider.get_tracer(name)
    )

    def record(*words, **options):
        spanscore.record_score(*words, **options)
        [found] = read_external(to_span(x) for x in exporter.get_finished_spans())
        return found

    return record


def test_a_thumbs_up_is_a_pass_of_the_turn_by_a_person(recorded):
    found = recorded(
        "helpful", True, comment="my flight", author="ada", trace=f"00-{TRACE}-{PARENT}-01"
    )
    assert (found.metric, found.value, found.passed, found.reason) == (
        "helpful",
        1.0,
        True,
        "my flight",
    )
    assert (found.evaluator.source, found.evaluator.kind, found.evaluator.author) == (
        "human",
        "HUMAN",
        "ada",
    )
    assert (found.target.trace_id, found.target.span_id) == (TRACE, PARENT)


@pytest.mark.parametrize(
    ("value", "expected"), [(4, (4.0, None, None)), ("formal", (None, "formal", None))]
)
def test_a_number_and_a_word_stay_what_they_are(recorded, value, expected):
    found = recorded("tone", value, trace=TRACE)
    assert (found.value, found.label, found.passed) == expected


def test_a_rating_keeps_its_scale(recorded):
    found = recorded("stars", 4, trace=TRACE, scale=(1, 5))
    assert (found.value, found.scale) == (4.0, (1.0, 5.0))


def test_of_a_trace_alone_no_span_is_made_up(recorded):
    assert recorded("helpful", False, trace=TRACE).target.span_id == ""


def test_a_session_may_be_scored(recorded):
    found = recorded("solved", True, session="chat-7", source="programmatic")
    assert (found.scope, found.subject_id, found.evaluator.kind) == ("session", "chat-7", "CODE")
