"""What an application records: its spans and events, and the turns that are rebuilt from them."""

import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanscore.rebuild import rebuild_all
from spanscore.sdk.authoring import values
from spanscore.sdk.otel_spans import to_span


class Recorded:
    """The spans that have ended."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def span(self, name):
        [found] = [x for x in self.spans if x.name == name]
        return found

    def turns(self):
        return rebuild_all([to_span(x) for x in self.spans], [])

    def turn(self):
        [found] = self.turns()
        return found

    def json(self, name, attribute):
        return json.loads(self.span(name).attributes[attribute])


@pytest.fixture
def recorded(monkeypatch):
    found = Recorded()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found.provider)
    return found


@pytest.fixture
def complaints(caplog):
    """What the SDK logged."""
    values._reported.clear()
    return lambda: [x.getMessage() for x in caplog.records if x.name == "spanscore.sdk"]
