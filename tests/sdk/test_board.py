"""What exporters that hold spans back know of their scores, also where `instrument` is called again."""

from application import Application
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanscore.judge import Config
from spanscore.sdk import scoring_exporter
from spanscore.sdk.scoring_exporter import Board, ScoringExporter


def test_instrumenting_again_goes_on_holding_spans_back():
    application, exporter = Application.made(), ScoringExporter(InMemorySpanExporter())
    application.instrument(attach="attributes")
    again = application.instrument(attach="attributes")
    try:
        assert scoring_exporter.board.is_open
    finally:
        again.shutdown()
        exporter.shutdown()


def test_nothing_is_to_leave_on_a_span_where_none_is_held():
    assert not Board().take(b"\x01" * 16)


def test_a_key_does_not_go_to_another_providers_model():
    config = Config(model="anthropic/claude-x", api_key="secret", api_base="http://a", fallback_models=("anthropic/y",))
    other = config.with_model("openai/gpt-4o-mini")
    assert (other.api_key, other.api_base, other.fallback_models) == (None, None, ())


def test_a_key_without_a_model_is_for_the_one_that_is_given():
    assert Config(api_key="secret").with_model("openai/gpt-4o-mini").api_key is not None
