"""What exporters that hold spans back know of their scores, also where `instrument` is called
again.
"""

import threading

import pytest
from application import Application
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanscore.export.config import Inline
from spanscore.judge import Config
from spanscore.sdk import scoring_exporter
from spanscore.sdk.gathered import Ended
from spanscore.sdk.otel_spans import to_span
from spanscore.sdk.scoring_exporter import Board, ScoringExporter

ROOT = "invoke_agent shop"


class Held:
    """A turn whose root waits in an exporter, while its scores are being stored."""

    def __init__(self, board):
        self.board = board
        self.application = Application.made()
        self.application.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.left = InMemorySpanExporter()
        self.exporter = ScoringExporter(self.left)
        self.application.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        board.open(Inline())
        context = self.application.turn()
        (waiting,) = self.exporter._held.values()
        board.ended(Ended(to_span(waiting.span), is_local_root=True))
        self.taken = board.take(context.trace_id.to_bytes(16, "big"))

    @property
    def has_left(self):
        return ROOT in [x.name for x in self.left.get_finished_spans()]


@pytest.fixture
def held():
    made = Held(scoring_exporter.board)
    yield made
    made.board.give_up()
    made.exporter.shutdown()
    made.board.close()


def test_a_span_whose_scores_are_being_stored_is_not_overdue(held):
    held.board.open(Inline(max_delay=0))
    held.board.look()
    assert not held.has_left


def test_a_span_whose_scores_are_being_stored_waits_on_where_scoring_ends(held):
    held.board.close()
    assert not held.has_left


def test_it_leaves_when_its_scores_are_stored(held):
    held.board.release(held.taken, ())
    assert held.has_left


def test_it_leaves_where_they_never_will_be(held):
    held.board.close()
    held.board.give_up()
    assert held.has_left


def test_an_exporter_that_is_shut_down_waits_for_what_is_being_stored(held, monkeypatch):
    waits = threading.Event()
    wait_for = held.board._released.wait_for

    def waited(*arguments):
        waits.set()
        return wait_for(*arguments)

    monkeypatch.setattr(held.board._released, "wait_for", waited)
    ending = threading.Thread(target=held.exporter.shutdown)
    ending.start()
    waits.wait(30)
    was_there = held.has_left
    held.board.release(held.taken, ())
    ending.join()
    assert (was_there, held.has_left) == (False, True)


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
    config = Config(
        model="anthropic/claude-x",
        api_key="secret",
        api_base="http://a",
        fallback_models=("anthropic/y",),
    )
    other = config.with_model("openai/gpt-4o-mini")
    assert (other.api_key, other.api_base, other.fallback_models) == (None, None, ())


def test_a_key_without_a_model_is_for_the_one_that_is_given():
    assert Config(api_key="secret").with_model("openai/gpt-4o-mini").api_key is not None
