"""Recorded traces scored one after the other: when each score is given, and what a stop leaves."""

import asyncio
import threading
import tracemalloc
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.evaluation import Config, Overrides
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline import scoring as scoring_module
from spanscore.offline.recordings import Recordings
from spanscore.offline.scoring import OfflineScoring
from spanscore.offline.sessions import SessionTurns
from spanscore.offline.workers import ScoredElsewhere, TracesCall
from spanscore.store import records

FOLDER = Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai"


class Engine:
    """Scores nothing; a trace whose input is in `waiting` waits for its event."""

    config = Config()
    looks_back = True
    uses_external_scores = False

    def __init__(self):
        self.waiting = {}
        self.earlier = {}
        self.sessions = []

    async def evaluate_trace(self, trace, _wanted, *, earlier):
        self.earlier[trace.id] = [x.id for x in earlier]
        if trace.id in self.waiting:
            await self.waiting[trace.id].wait()
        return []

    async def evaluate_session(self, session, _signals, _wanted, *, external):
        self.sessions.append([x.id for x in session.traces])
        return []


@pytest.fixture
def traces():
    [found] = Recordings([FOLDER]).batches()
    return found


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def scoring(engine):
    return OfflineScoring(engine, Overrides())


def scored(scoring, *batches):
    async def collect():
        return [x.subject async for x in scoring.run(batches)]

    return asyncio.run(collect())


def test_traces_come_in_their_order_and_then_their_sessions(scoring, traces):
    found = scored(scoring, traces[:2], traces[2:])
    assert [x.id for x in found[:4]] == [x.id for x in traces]
    assert {x.session_id for x in found[4:]} == {x.session_id for x in traces}


def test_a_trace_is_given_while_a_later_one_is_still_scored(scoring, engine, traces):
    async def first():
        engine.waiting[traces[1].id] = asyncio.Event()
        return (await anext(scoring.run([traces]))).subject

    assert asyncio.run(first()) == traces[0]


def test_a_trace_is_given_before_the_next_batch_is_read(scoring, traces):
    is_given = threading.Event()

    def batches():
        yield traces[:1]
        assert is_given.wait(60)
        yield traces[1:]

    async def collect():
        found = []
        async for x in scoring.run(batches()):
            found.append(x.subject)
            is_given.set()
        return found

    assert asyncio.run(collect())[0] == traces[0]


def test_stopped_it_gives_what_is_finished_and_nothing_else(scoring, engine, traces):
    async def until_stopped():
        engine.waiting[traces[1].id] = asyncio.Event()
        found = []
        async for x in scoring.run([traces]):
            found.append(x.subject)
            scoring.stop()
        return found

    found = asyncio.run(until_stopped())
    assert traces[1] not in found
    assert all(isinstance(x, AgentTrace) for x in found)


def test_an_error_of_reading_is_raised(scoring):
    def broken():
        raise ValueError("unreadable")
        yield

    with pytest.raises(ValueError, match="unreadable"):
        asyncio.run(_all(scoring.run(broken())))


async def _all(run):
    return [x async for x in run]


def test_who_asks_for_no_more_leaves_nothing_running(scoring, engine, traces):
    async def left():
        engine.waiting = {x.id: asyncio.Event() for x in traces[1:]}
        run = scoring.run([traces])
        await anext(run)
        await run.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(left()) == set()


def test_an_error_of_scoring_is_raised_and_leaves_nothing_running(scoring, engine, traces):
    async def fail(*_args, **_facts):
        raise ZeroDivisionError

    async def left():
        engine.evaluate_trace = fail
        with pytest.raises(ZeroDivisionError):
            await _all(scoring.run([traces]))
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(left()) == set()


def test_sessions_that_fill_the_room_are_scored_one_after_the_other(engine, traces, monkeypatch):
    monkeypatch.setattr("spanscore.offline.scoring._MAX_BYTES_UNDER_WAY", 1)
    inside, most = [0], [0]

    async def count(*_args, **_facts):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        await asyncio.sleep(0)
        inside[0] -= 1
        return []

    engine.evaluate_session = count
    sessions = [replace(x, session_id=str(n), session_key=str(n)) for n, x in enumerate(traces)]
    assert len(scored(OfflineScoring(engine, Overrides()), sessions)) == 2 * len(traces)
    assert most == [1]


def test_a_trace_is_scored_knowing_the_turns_before_it(scoring, engine, traces):
    one_session = [replace(x, session_id="one", session_key="one") for x in traces]
    scored(scoring, one_session[:2], one_session[2:])
    assert engine.earlier[traces[3].id] == [x.id for x in traces[:3]]


def test_a_session_has_its_turns_by_their_start_however_they_came(scoring, engine, traces):
    one_session = [replace(x, session_id="one", session_key="one") for x in traces]
    scored(scoring, one_session[2:], one_session[:2])
    assert engine.sessions == [[x.id for x in traces]]


def test_turns_that_memory_has_no_room_for_come_back_as_they_were(traces):
    turns = SessionTurns()
    for trace in traces:
        turns.add(trace)
    assert [x for key in turns.keys for x in turns.session(key)[0].traces] == traces


@pytest.mark.slow
def test_where_turns_stand_takes_no_memory_once_there_are_many(traces):
    turns = SessionTurns()
    one = replace(traces[0], session_id="one", session_key="one")

    def add(numbers):
        for number in numbers:
            turn = replace(one, trace_ids=(f"{number:032x}",), started_ns=10**18 + number)
            turns.add(turn)
            turns.keep(turn, ["{}"])

    add(range(100))
    tracemalloc.start()
    try:
        add(range(100, 2100))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        turns.close()
    assert kept_bytes < 100 * 2000


class Workers:
    """Stand for worker processes that score each call at once; `calls` and `bundles` are how many
    traces and sessions each had.
    """

    def __init__(self, count=16):
        self.count = count
        self.calls = []
        self.bundles = []

    def call(self, given):
        return TracesCall("traces", bytes(len(given)))

    def traces(self, call):
        self.calls.append(call.size_bytes)
        scores = Future()
        scores.set_result([ScoredElsewhere([], None, [])] * call.size_bytes)
        return scores

    def sessions(self, found):
        self.bundles.append(len(found))
        scores = Future()
        scores.set_result([(self._session(x), ScoredElsewhere([], None, [])) for x in found])
        return scores

    def _session(self, found):
        [first, *_] = map(records.decode_trace, found.traces)
        return Session(found.key, (first,))


@pytest.mark.parametrize(("max_bytes", "calls"), [(1, 1), (2, 2), (100, 4)])
def test_worker_processes_have_as_many_calls_as_there_is_memory_for(
    engine, traces, monkeypatch, max_bytes, calls
):
    monkeypatch.setattr(scoring_module, "_OF_WORKER", 1)
    monkeypatch.setattr(scoring_module, "_MAX_BYTES_UNDER_WAY", max_bytes)
    workers = Workers()
    scoring = OfflineScoring(engine, Overrides(), workers)

    async def calls_when_each_is_given():
        return [len(workers.calls) async for _ in scoring.run([traces])]

    assert asyncio.run(calls_when_each_is_given())[0] == calls
    assert workers.calls == [1] * len(traces)


def bundles(engine, make_trace, sessions, workers):
    """How many sessions each call has of so many sessions and worker processes."""
    traces = [make_trace(x + 1, session_id=str(x), started_ns=x) for x in range(sessions)]
    standing = Workers(workers)
    scoring = OfflineScoring(engine, Overrides(), standing)

    async def given():
        return [x.subject.id async for x in scoring.run([traces]) if isinstance(x.subject, Session)]

    assert asyncio.run(given()) == [str(x) for x in range(sessions)]
    return standing.bundles


def test_a_worker_process_gets_several_sessions_at_once(engine, make_trace):
    assert bundles(engine, make_trace, 80, 2) == [10] * 8


def test_few_sessions_are_spread_over_the_worker_processes(engine, make_trace):
    assert bundles(engine, make_trace, 3, 2) == [1, 1, 1]


def test_large_sessions_are_given_one_by_one(engine, make_trace, monkeypatch):
    monkeypatch.setattr(scoring_module, "_BUNDLE_BYTES", 1)
    assert bundles(engine, make_trace, 20, 1) == [1] * 20


def test_stopped_it_does_not_finish_all_that_was_read(scoring, traces, monkeypatch):
    monkeypatch.setattr(scoring_module, "_AT_ONCE", 2)

    async def until_stopped():
        found = []
        async for x in scoring.run([traces[:1] * 1000]):
            found.append(x.subject)
            scoring.stop()
        return found

    assert len(asyncio.run(until_stopped())) < 200
