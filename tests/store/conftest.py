"""Traces, scores, and a store in a file, all as small as a test can use."""

from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, text

from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

RULES = Evaluator("CODE", "rules", "1")


def make_trace(number=1, **facts):
    trace_id = f"{number:032x}"
    target = Target(trace_id, f"{number:016x}", 1000, 2000, {"service.name": "shop"})
    defaults = {
        "trace_ids": (trace_id,),
        "root_span_id": target.span_id,
        "target": target,
        "opening_span_id": target.span_id,
        "started_ns": 1000 * number,
        "ended_ns": 2000 * number,
    }
    return AgentTrace(**{**defaults, **facts})


def make_score(trace, metric="coherence", value=0.75, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": metric,
        "outcome": Score(value, "because"),
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": RULES,
        "target": trace.target,
        "session_id": trace.session_id,
    }
    return Evaluation(**{**defaults, **facts})


@pytest.fixture(scope="session")
def make():
    """`make.trace(number, **facts)`, `make.score(trace, metric, value, **facts)`,
    `make.stored(trace, revision)`.
    """

    def stored(trace, revision=1):
        return StoredTrace(trace, revision, f"digest {revision}")

    return SimpleNamespace(trace=make_trace, score=make_score, stored=stored)


class Clock:
    """Unix nanoseconds, moved by hand."""

    def __init__(self):
        self.now_ns = 10**18

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_store(database_url, clock):
    """`open_store(**retention)`: the store in this test's database; every call opens it anew, as a
    restart does.
    """
    opened = []

    def open_it(**retention):
        config = Config.model_validate({"url": database_url, "retention": retention})
        opened.append(Store.open(config, clock_ns=clock))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def sql(database_url):
    """`sql(statement, **parameters)` behind the store's back; returns the rows, where there are
    any.
    """
    engine = create_engine(database_url)

    def execute(statement, **parameters):
        with engine.begin() as connection:
            found = connection.execute(text(statement), parameters)
            return found.all() if found.returns_rows else None

    yield execute
    engine.dispose()
