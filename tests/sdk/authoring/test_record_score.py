"""Scores that people and programs give."""

import pytest
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

import spanscore
from spanscore.received_scores import read_external
from spanscore.sdk.otel_spans import to_log_record, to_span


@pytest.fixture
def logged(monkeypatch):
    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    monkeypatch.setattr(_logs._internal, "get_logger_provider", lambda: provider)
    return exporter.get_finished_logs


def score(recorded):
    [found] = [x for x in recorded.spans if x.name.startswith("evaluation")]
    return found


def test_a_thumbs_up_is_a_child_of_its_turn(recorded):
    with spanscore.turn("Hi") as turn:
        spanscore.record_score("helpful", True, comment="It greets.", author="ann")
    found = score(recorded)
    assert (found.name, trace.format_span_id(found.parent.span_id)) == (
        "evaluation helpful",
        turn.span_id,
    )
    told = {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": "helpful",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "It greets.",
        "spanscore.score.source": "human",
        "spanscore.score.author": "ann",
    }
    assert told.items() <= dict(found.attributes).items()
    assert found.instrumentation_scope.name == "spanscore.sdk"


@pytest.mark.parametrize(
    ("value", "number", "label"),
    [(False, 0.0, "fail"), (4, 4.0, None), (0.25, 0.25, None), ("rude", None, "rude")],
)
def test_a_value_is_recorded_as_what_it_is(recorded, value, number, label):
    with spanscore.turn("Hi"):
        spanscore.record_score("tone", value, source="programmatic")
    found = score(recorded).attributes
    assert found.get("gen_ai.evaluation.score.value") == number
    assert found.get("gen_ai.evaluation.score.label") == label


def test_a_rating_has_the_scale_that_is_given(recorded):
    with spanscore.turn("Hi"):
        spanscore.record_score("stars", 4, scale=(1, 5))
    assert score(recorded).attributes["spanscore.scale"] == (1.0, 5.0)


@pytest.mark.parametrize(
    ("value", "scale"),
    [(7, (1, 5)), (4, (5, 1)), (1, (1, 1)), (4, (1, float("inf"))), (True, (0, 1)), ("ok", (1, 5))],
)
def test_a_scale_that_the_value_is_not_on_is_said_and_left_out(recorded, complaints, value, scale):
    with spanscore.turn("Hi"):
        spanscore.record_score("stars", value, scale=scale)
    assert "spanscore.scale" not in score(recorded).attributes
    assert len(complaints()) == 1


def test_a_score_is_no_part_of_what_is_scored(recorded):
    with spanscore.turn("Hi") as turn:
        turn.answer("Hello.")
        before = turn
        spanscore.record_score("helpful", True)
    assert recorded.turn().final_output == "Hello."
    assert before.trace_id == recorded.turn().trace_ids[0]


def test_a_score_a_day_later_is_in_the_trace_that_traceparent_names(recorded):
    with spanscore.turn("Hi") as turn:
        stored = turn.traceparent
    spanscore.record_score("helpful", True, trace=stored)
    found = score(recorded)
    assert trace.format_trace_id(found.context.trace_id) == turn.trace_id
    assert trace.format_span_id(found.parent.span_id) == turn.span_id


@pytest.mark.parametrize(
    "spelled", [str.upper, lambda x: f"{x[:8]}-{x[8:12]}-{x[12:16]}-{x[16:20]}-{x[20:]}", str]
)
def test_a_trace_id_alone_names_the_trace(recorded, spelled):
    with spanscore.turn("Hi") as turn:
        pass
    spanscore.record_score("helpful", True, trace=spelled(turn.trace_id))
    assert trace.format_trace_id(score(recorded).context.trace_id) == turn.trace_id


def test_a_turn_that_has_ended_names_its_trace(recorded):
    with spanscore.turn("Hi") as turn:
        pass
    spanscore.record_score("helpful", True, trace=turn)
    assert trace.format_span_id(score(recorded).parent.span_id) == turn.span_id


def test_a_score_of_a_session_names_the_session(recorded):
    spanscore.record_score("solved", True, session="chat-7")
    found = score(recorded).attributes
    told = {
        "session.id": "chat-7",
        "gen_ai.conversation.id": "chat-7",
        "spanscore.scope": "session",
    }
    assert told.items() <= dict(found).items()


def test_without_a_turn_a_score_is_of_the_current_spans_trace(recorded):
    with recorded.provider.get_tracer("web").start_as_current_span("POST /chat") as span:
        spanscore.record_score("helpful", True)
    assert score(recorded).parent.span_id == span.get_span_context().span_id


def test_a_score_of_nothing_is_said_and_lost(recorded, complaints):
    spanscore.record_score("helpful", True)
    spanscore.record_score("helpful", True, trace="no trace id")
    assert (recorded.spans, len(complaints())) == ((), 1)


def test_a_score_may_be_an_event(recorded, logged):
    with spanscore.turn("Hi") as turn:
        spanscore.record_score("helpful", False, comment="Too short.", emit="event")
    [event] = [x.log_record for x in logged()]
    assert (
        event.event_name,
        trace.format_trace_id(event.trace_id),
        trace.format_span_id(event.span_id),
    ) == ("gen_ai.evaluation.result", turn.trace_id, turn.span_id)
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.0
    assert event.attributes["spanscore.score.source"] == "human"
    assert [x.name for x in recorded.spans] == ["invoke_agent"]


def test_without_a_provider_nothing_happens():
    with spanscore.turn("Hi"):
        spanscore.record_score("helpful", True)
        spanscore.record_score("helpful", True, emit="event", session="chat-7")


def test_a_score_is_read_as_somebody_elses(recorded):
    with spanscore.turn("Hi") as turn:
        spanscore.record_score("helpful", True, comment="It greets.", author="ann")
    [found] = read_external(map(to_span, recorded.spans))
    assert (found.metric, found.value, found.label, found.reason) == (
        "helpful",
        1.0,
        "pass",
        "It greets.",
    )
    assert (found.evaluator.source, found.evaluator.author) == ("human", "ann")
    assert (found.target.trace_id, found.target.span_id) == (turn.trace_id, turn.span_id)


@pytest.mark.parametrize("emit", ["span", "event"])
def test_a_score_of_a_trace_id_alone_is_of_the_trace_and_no_span(recorded, logged, emit):
    spanscore.record_score("stars", 4, trace="1" * 32, emit=emit)
    [found] = read_external(map(to_span, recorded.spans), map(to_log_record, logged()))
    assert (found.value, found.target.trace_id, found.target.span_id) == (4.0, "1" * 32, "")


@pytest.mark.parametrize("emit", ["span", "event"])
def test_a_score_of_a_session_is_read_as_one(recorded, logged, emit):
    spanscore.record_score("mood", "glad", session="chat-7", emit=emit)
    [found] = read_external(map(to_span, recorded.spans), map(to_log_record, logged()))
    assert (found.scope, found.session_id, found.label) == ("session", "chat-7", "glad")


def test_a_keyword_that_there_is_not_is_an_error_of_the_caller():
    with pytest.raises(TypeError, match="scael"):
        spanscore.record_score("helpful", 4, scael=(1, 5))
