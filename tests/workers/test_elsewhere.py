"""Sessions that worker processes evaluate: none is lost when one dies, and an error is raised
here.
"""

import asyncio

import pytest

from spanscore.evaluation.session_scores import SessionScores
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter
from spanscore.workers import SessionsElsewhere
from spanscore.workers.messages import Failed, Scored
from spanscore.workers.pool import WorkerDiedError
from spanscore.workers.reading import KillsWorkersError, ReadFailedError

TWO = StoredSessions(("one", "two"), (), ())


class Pool:
    """Scores sessions by `score`, which may have the process die."""

    def __init__(self, score):
        self.score_one = score
        self.asked = []

    async def score(self, stored):
        self.asked.append(stored.keys)
        return self.score_one(stored)


def none_of(stored):
    return Scored([SessionScores([], []) for _ in stored.keys], [])


def dying(times):
    """What has the process die so often that has session two to score."""
    left = [times]

    def score(stored):
        if "two" in stored.keys and left[0]:
            left[0] -= 1
            raise WorkerDiedError
        return none_of(stored)

    return score


def scores(pool, meter=None):
    return asyncio.run(SessionsElsewhere(pool, meter or Meter()).session_scores(TWO))


@pytest.mark.parametrize("times", [0, 1, 3])
def test_every_session_is_scored_though_processes_die(times):
    assert len(scores(Pool(dying(times)))) == len(TWO.keys)


def test_the_sessions_of_a_dead_process_are_scored_one_by_one():
    pool = Pool(dying(1))
    scores(pool)
    assert pool.asked == [("one", "two"), ("one",), ("two",)]


def test_a_session_on_which_processes_die_again_and_again_is_an_error_that_names_it():
    with pytest.raises(KillsWorkersError, match="session 'two'"):
        scores(Pool(dying(100)))


def test_an_error_in_the_process_is_one_here():
    with pytest.raises(ReadFailedError, match="line 3"):
        scores(Pool(lambda _: Failed("ValueError", "line 3")))


def test_what_the_process_cannot_send_is_left_to_the_server():
    assert scores(Pool(lambda _: Failed("RecursionError", "", is_for_server=True))) is None


def test_what_rules_decided_there_is_counted_here():
    decision = {"rule": "default", "scope": "session", "outcome": "evaluated"}
    meter = Meter()
    scores(Pool(lambda stored: Scored(none_of(stored).scores, [decision])), meter)
    assert meter.totals()["rules_decisions"] == 1
