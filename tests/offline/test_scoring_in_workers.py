"""Traces and sessions that a worker process is given in one call: how they are scored beside one
another.
"""

from concurrent.futures import Future
from pathlib import Path

import pytest

from spanscore import config
from spanscore.evaluation import Overrides
from spanscore.offline.recordings import Recordings
from spanscore.offline.workers import ScoringInWorkers, SessionRecords, Setup
from spanscore.store import records

FOLDER = Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai"

PLUGIN = """
import asyncio
import spanscore

all_are_under_way = asyncio.Barrier({count})

@spanscore.metric(timeout_s=2)
async def waits_for_all(trace) -> float:
    await all_are_under_way.wait()
    return 1.0

@spanscore.metric(timeout_s=2)
async def waits_for_all_sessions(session: spanscore.Session) -> float:
    await all_are_under_way.wait()
    return 1.0
"""


class ThisProcess:
    """Stands for a pool: makes each call at once, in this process."""

    def __len__(self):
        return 1

    def submit(self, function, *arguments, about):
        result = Future()
        result.set_result(function(*arguments))
        return result


def shown(trace, _evaluations):
    return trace.id


@pytest.fixture
def traces():
    [found] = Recordings([FOLDER]).batches()
    return found


def waiting(folder, metric, count):
    """Workers that measure a metric, which waits until so many are being scored."""
    (folder / "own.py").write_text(PLUGIN.format(count=count))
    settings = config.parse(
        f"evaluation: {{plugins: [./own.py], metrics: {{{metric}: {{}}}}}}", folder=folder
    )
    return ScoringInWorkers(ThisProcess(), Setup(settings, folder, Overrides((metric,)), shown))


@pytest.fixture
def scored(tmp_path, traces):
    """What one call gives for all traces, each of which waits until all are being scored."""
    workers = waiting(tmp_path, "waits_for_all", len(traces))
    return workers.traces(workers.call([(x, ()) for x in traces])).result()


@pytest.fixture
def scored_sessions(tmp_path, traces):
    """What one call gives for sessions of a trace each, which wait for each other."""
    workers = waiting(tmp_path, "waits_for_all_sessions", len(traces))
    return workers.sessions(
        [SessionRecords(x.id, [records.encode(x)], [[]]) for x in traces]
    ).result()


def test_metrics_that_wait_are_under_way_together_for_all_traces_of_a_call(scored, traces):
    values = [x.outcome.value for found in scored for x in found.evaluations]
    assert values == [1.0] * len(traces)


def test_the_scores_of_a_call_are_in_the_order_of_its_traces(scored, traces):
    assert [x.shown for x in scored] == [x.id for x in traces]


def test_metrics_that_wait_are_under_way_together_for_all_sessions_of_a_call(
    scored_sessions, traces
):
    values = [x.outcome.value for _, found in scored_sessions for x in found.evaluations]
    assert values == [1.0] * len(traces)


def test_the_scores_of_a_call_are_in_the_order_of_its_sessions(scored_sessions, traces):
    assert [session.traces[0].id for session, _ in scored_sessions] == [x.id for x in traces]
