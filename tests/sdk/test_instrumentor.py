"""`opentelemetry-instrument` scores a program where its environment asks for it."""

from importlib.metadata import entry_points

import pytest

from spanscore.sdk import instrumentation
from spanscore.sdk.instrumentation import Instrumentor


@pytest.fixture
def instrumented(monkeypatch):
    """The options of each call of `instrument`."""
    calls = []
    monkeypatch.setattr(instrumentation, "instrument", lambda **options: calls.append(options))
    return calls


def test_the_loader_finds_it():
    [found] = entry_points(group="opentelemetry_instrumentor", name="spanscore")
    assert found.load() is Instrumentor


def test_a_program_is_not_scored_because_spanscore_is_installed(instrumented):
    Instrumentor().instrument(skip_dep_check=True)
    assert instrumented == []


@pytest.mark.parametrize("switch", ["SPANSCORE_CONFIG", "SPANSCORE_JUDGE_MODEL"])
def test_a_program_is_scored_whose_environment_asks_for_it(instrumented, monkeypatch, switch):
    monkeypatch.setenv(switch, "something")
    Instrumentor().instrument(skip_dep_check=True)
    assert instrumented == [{}]


def test_a_wrong_environment_stops_no_program(monkeypatch, caplog):
    monkeypatch.setenv("SPANSCORE_CONFIG", "/nowhere.yaml")
    Instrumentor().instrument()
    assert "spanscore scores nothing: /nowhere.yaml" in caplog.text
