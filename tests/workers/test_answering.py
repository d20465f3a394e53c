"""Of which traces a worker process makes the scores when it reads them."""

import sqlite3

import pytest

from spanscore.assemble.assembler import Cut
from spanscore.telemetry import Config as Telemetry
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult
from spanscore.workers.answers import Answering, Evaluating, Setup, Task

CUT = Cut(b"\x01" * 16, (1,), "complete", genai=True, reopened=False)


class Scoring(Evaluating):
    """Has scores for each trace."""

    def __init__(self):
        pass

    def traces(self, traces):
        return {trace.id: "scores" for trace in traces}


class Reader:
    """Reads one trace in each job."""

    def __init__(self, trace):
        self.trace = trace

    def read(self, job, _is_referred_to):
        return ReadResult(job, [self.trace])


@pytest.fixture
def scores(tmp_path):
    """The scores that come with a trace that was read for a reason."""
    path = tmp_path / "journal.db"
    sqlite3.connect(path).close()
    answering = Answering(Setup(path, Telemetry(), frozenset(), (), frozenset()), Scoring())

    def scores_of(kind, trace):
        answering._reader = Reader(trace)
        (read,) = answering.answers([Task(ReadJob((CUT,), kind))], {}).read
        return list(read.first_scores)

    return scores_of


@pytest.mark.parametrize("kind", [JobKind.TRACE, JobKind.EARLY])
def test_a_trace_that_shows_that_it_is_whole_is_scored(scores, make_trace, kind):
    assert scores(kind, make_trace()) == [make_trace().id]


def test_a_trace_that_was_read_early_and_goes_on_is_not_scored(scores, make_trace):
    assert scores(JobKind.EARLY, make_trace(final_output=None)) == []


def test_a_trace_that_is_complete_is_scored_as_it_is(scores, make_trace):
    unanswered = make_trace(final_output=None)
    assert scores(JobKind.TRACE, unanswered) == [unanswered.id]


def test_a_turn_of_several_traces_is_left_to_the_server(scores, make_trace):
    assert scores(JobKind.TURN, make_trace()) == []
