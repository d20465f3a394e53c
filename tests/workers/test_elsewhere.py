"""Sessions that worker processes evaluate: none is lost when one dies, and an error is raised
here.
"""

import asyncio

import pytest

from spanscore.evaluation.engine import BatchScores, SessionScores
from spanscore.telemetry import Meter
from spanscore.worker_processes import NotForkedError, WorkerDiedError
from spanscore.workers import LoneTries, SessionsElsewhere
from spanscore.workers.answers import Failed, Scored
from spanscore.workers.readers import KillsWorkersError, ReadFailedError

TWO = ("one", "two")


class Pool:
    """Scores sessions by `score`, which may have the process die."""

    def __init__(self, score):
        self.score_one = score
        self.asked = []

    def __len__(self):
        return 2

    async def score(self, wanted, *, alone_s=None):
        self.asked.append(tuple(wanted.keys))
        return self.score_one(wanted)


async def at_once(_seconds):
    """Sleeps for no time."""


def none_of(wanted):
    return Scored([SessionScores([], []) for _ in wanted.keys], [])


def dying(times):
    """What has the process die so often that has session two to score."""
    left = [times]

    def score(wanted):
        if "two" in wanted.keys and left[0]:
            left[0] -= 1
            raise WorkerDiedError("ended with 9")
        return none_of(wanted)

    return score


def batches(pool, meter=None, sessions=TWO):
    """What became of the sessions, as it came."""
    processes = SessionsElsewhere(pool, meter or Meter(), LoneTries(sleep=at_once))

    async def run():
        return [batch async for batch in processes.session_scores(sessions)]

    return asyncio.run(run())


def scores(pool, meter=None, sessions=TWO):
    """What became of the sessions, of all together."""
    found = BatchScores()
    for batch in batches(pool, meter, sessions):
        found.scores += batch.scores
        found.failed |= batch.failed
        found.for_server = [*found.for_server, *batch.for_server]
    return found


@pytest.mark.parametrize("times", [0, 1, 3])
def test_every_session_is_scored_though_processes_die(times):
    assert len(scores(Pool(dying(times))).scores) == len(TWO)


def test_the_sessions_of_a_dead_process_are_scored_one_by_one():
    pool = Pool(dying(1))
    scores(pool)
    assert pool.asked == [("one", "two"), ("one",), ("two",)]


def half_of(wanted):
    """The scores of the first half of the sessions, of which there is at least one."""
    count = (len(wanted.keys) + 1) // 2
    return Scored([SessionScores([], [])] * count, [], wanted.keys[count:])


def test_sessions_that_a_process_has_left_are_asked_for_once_more():
    pool = Pool(half_of)
    found = batches(pool, sessions=("a", "b", "c"))
    assert [x.keys for x in found] == [("a", "b"), ("c",)]
    assert pool.asked == [("a", "b", "c"), ("c",)]


def failing(failed):
    """What gives `failed`, or raises it, for whatever has session two in it."""

    def score(wanted):
        if "two" not in wanted.keys:
            return none_of(wanted)
        if isinstance(failed, Exception):
            raise failed
        return failed

    return score


CANNOT = [WorkerDiedError("ended with 9"), Failed("ValueError", "line 3"), MemoryError()]


@pytest.mark.parametrize("failed", CANNOT, ids=["kills", "fails", "is not sent"])
def test_a_session_that_cannot_be_scored_leaves_the_others_their_scores(failed):
    found = scores(Pool(failing(failed)))
    assert (len(found.scores), list(found.failed)) == (1, ["two"])


def test_the_scores_of_the_others_come_before_a_session_that_kills_processes():
    first, last = batches(Pool(dying(100)))
    assert (len(first.scores), list(last.failed)) == (1, ["two"])


def test_a_session_on_which_processes_die_again_and_again_is_an_error():
    assert isinstance(scores(Pool(dying(100))).failed["two"], KillsWorkersError)


def test_a_session_for_which_there_is_no_process_for_a_time_is_scored_then():
    left = [WorkerDiedError("ended with 9"), *[NotForkedError("Cannot allocate memory")] * 5]

    def score(wanted):
        if left:
            raise left.pop(0)
        return none_of(wanted)

    assert len(scores(Pool(score)).scores) == len(TWO)


def test_an_error_in_the_process_is_one_here():
    error = scores(Pool(failing(Failed("ValueError", "line 3")))).failed["two"]
    assert isinstance(error, ReadFailedError)
    assert "line 3" in str(error)


def test_what_the_process_cannot_send_is_left_to_the_server():
    found = scores(Pool(lambda _: Failed("RecursionError", "", is_for_server=True)))
    assert found.for_server == [*TWO]


def test_what_rules_decided_there_is_counted_here():
    decision = {"rule": "default", "scope": "session", "outcome": "evaluated"}
    meter = Meter()
    scores(Pool(lambda wanted: Scored(none_of(wanted).scores, [decision])), meter)
    assert meter.totals()["rules_decisions"] == 1


class Waiting:
    """So many processes, which answer once they `may_answer`; `most` were asked at once."""

    def __init__(self, count):
        self.count, self.most, self.under_way = count, 0, 0
        self.may_answer = asyncio.Event()

    def __len__(self):
        return self.count

    async def score(self, wanted):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.may_answer.wait()
        self.under_way -= 1
        return none_of(wanted)


@pytest.mark.parametrize(("processes", "most"), [(2, 4), (5, 10)])
def test_each_process_has_a_batch_and_one_to_go_on_with(processes, most):
    async def run():
        pool = Waiting(processes)
        elsewhere = SessionsElsewhere(pool, Meter(), LoneTries(sleep=at_once))

        async def score(number):
            return [x async for x in elsewhere.session_scores([f"session {number}"])]

        tasks = [asyncio.create_task(score(number)) for number in range(20)]
        for _ in range(100):  # each task goes on until it waits
            await asyncio.sleep(0)
        pool.may_answer.set()
        found = await asyncio.gather(*tasks)
        return pool.most, len(found)

    assert asyncio.run(run()) == (most, 20)
