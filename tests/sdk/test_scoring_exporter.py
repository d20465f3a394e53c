"""Scores leave on the evaluated span itself, which waits for them, and for nothing else."""

import pytest
from application import METRICS, Application, HangingJudge
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import spanscore
from spanscore.config import parse

ROOT, CHAT = "invoke_agent shop", "chat m"


def application(processor=SimpleSpanProcessor):
    """An application whose only exporter is wrapped."""
    made = Application.made()
    made.tracer_provider = TracerProvider(shutdown_on_exit=False)
    made.spans = InMemorySpanExporter()
    made.tracer_provider.add_span_processor(processor(spanscore.ScoringExporter(made.spans)))
    return made


def names(of):
    return [x.name for x in of.spans.get_finished_spans()]


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
def test_the_root_leaves_with_its_scores(processor):
    own = application(processor)
    instrumentation = own.instrument(attach="attributes")
    own.turn()
    own.tracer_provider.force_flush()
    instrumentation.shutdown()
    roots = [x for x in own.spans.get_finished_spans() if x.name == ROOT]
    assert [x.attributes[f"spanscore.{METRICS[0]}.label"] for x in roots] == ["pass"]


def test_a_score_on_a_span_is_no_span_of_its_own():
    own = application()
    instrumentation = own.instrument(attach="attributes")
    own.turn()
    instrumentation.shutdown()
    assert names(own) == [CHAT, ROOT]


def test_only_the_root_waits():
    own = application()
    instrumentation = own.instrument(
        attach="attributes", metrics=["task_completion"], judge=HangingJudge()
    )
    own.turn()
    assert names(own) == [CHAT]
    instrumentation.shutdown(100)


def test_a_root_waits_no_longer_than_it_may():
    own = application()
    config = parse("inline: {max_delay: 0s}")
    instrumentation = own.instrument(
        attach="attributes", metrics=["task_completion"], judge=HangingJudge(), config=config
    )
    own.turn()
    own.turn()
    assert names(own).count(ROOT) >= 1
    instrumentation.shutdown(100)


def test_a_trace_without_genai_does_not_wait():
    own = application()
    instrumentation = own.instrument(attach="attributes")
    with own.tracer.start_as_current_span("GET /"):
        pass
    assert names(own) == ["GET /"]
    instrumentation.shutdown()


def test_what_waits_leaves_at_the_shutdown():
    own = application()
    instrumentation = own.instrument(
        attach="attributes", metrics=["task_completion"], judge=HangingJudge()
    )
    own.turn()
    instrumentation.shutdown(100)
    own.tracer_provider.shutdown()
    assert names(own) == [CHAT, ROOT]


def test_without_scoring_nothing_waits():
    own = application()
    own.instrument().shutdown()
    own.turn()
    assert names(own) == [CHAT, ROOT]
