"""A trace is tried by itself some time after a process died, so that another cause can pass; and
none waits for those that kill processes.
"""

import asyncio

import pytest

from spanscore.worker_processes import NotForkedError, WorkerDiedError
from spanscore.workers.readers import TRIES, KillsWorkersError, LoneTries


class Pressure:
    """Kills each process until so many seconds have passed; time passes by `sleep` alone."""

    def __init__(self, seconds, deadly=("trace",)):
        self.left_s = seconds
        self.passed_s = 0.0
        self.deadly = deadly
        self.limits_s = []

    async def sleep(self, seconds):
        self.left_s -= seconds
        self.passed_s += seconds

    async def ask(self, item, limit_s):
        self.limits_s.append(limit_s)
        if self.left_s > 0 and item in self.deadly:
            raise WorkerDiedError("was killed by signal 9")
        return "read"


def tried(pressure, items=("trace",)):
    """Each answer, by what it is of, with the seconds after which it came."""

    async def run():
        tries = LoneTries(sleep=pressure.sleep).answers(items, pressure.ask)
        return {item: (answer, pressure.passed_s) async for item, answer in tries}

    return asyncio.run(run())


@pytest.mark.parametrize("seconds", [0, 1, 10])
def test_a_cause_that_passes_within_seconds_condemns_no_trace(seconds):
    assert tried(Pressure(seconds))["trace"][0] == "read"


def test_a_trace_on_which_a_process_dies_at_each_try_is_an_error_that_says_how():
    error, _ = tried(Pressure(60))["trace"]
    assert isinstance(error, KillsWorkersError)
    assert str(error) == (
        "3 worker processes died while they worked on it; the last was killed by signal 9"
    )


def test_an_innocent_trace_waits_for_no_trace_that_kills_processes():
    _, passed_s = tried(Pressure(60, ["deadly"]), ["deadly", "innocent"])["innocent"]
    assert passed_s == 0


def test_many_traces_that_kill_processes_wait_no_longer_than_one():
    one, many = Pressure(60), Pressure(60, range(64))
    tried(one)
    tried(many, range(64))
    assert many.passed_s == one.passed_s


def test_the_first_try_may_take_least():
    pressure = Pressure(60)
    tried(pressure)
    assert pressure.limits_s == sorted(limit_s for _, limit_s in TRIES)


class NoProcesses(Pressure):
    """Has no process for any try until so many seconds have passed."""

    async def ask(self, item, limit_s):
        self.limits_s.append(limit_s)
        if self.left_s > 0:
            raise NotForkedError("Cannot allocate memory")
        return "read"


def test_a_try_for_which_there_is_no_process_counts_as_none():
    assert tried(NoProcesses(3600))["trace"][0] == "read"


def test_a_try_for_which_there_is_no_process_is_made_again_with_the_same_time():
    pressure = NoProcesses(60)
    tried(pressure)
    assert set(pressure.limits_s) == {TRIES[0][1]}


class Slow:
    """Of one thing the first try ends in time, and a later one never."""

    def __init__(self, slow):
        self.slow = slow
        self.asked = []
        self.is_slow = asyncio.Event()

    async def ask(self, item, limit_s):
        self.asked.append(item)
        if item == self.slow:
            if limit_s > TRIES[0][1]:
                self.is_slow.set()
                await asyncio.Event().wait()
            raise WorkerDiedError("had not ended")
        return "read"


async def at_once(_seconds):
    await asyncio.sleep(0)


def test_an_answer_comes_before_the_next_thing_is_tried():
    async def run():
        slow = Slow(None)
        item, _ = await anext(LoneTries(sleep=at_once).answers(["first", "second"], slow.ask))
        return item, slow.asked

    assert asyncio.run(run()) == ("first", ["first"])


def test_a_later_try_that_lasts_long_delays_no_first_try_of_others():
    async def run():
        tries, slow = LoneTries(sleep=at_once), Slow("slow")
        first = asyncio.create_task(anext(tries.answers(["slow"], slow.ask)))
        await slow.is_slow.wait()
        found = [x async for x in tries.answers(["other"], slow.ask)]
        first.cancel()
        return found

    assert asyncio.run(run()) == [("other", "read")]


def test_first_tries_leave_processes_to_what_is_not_tried_alone():
    most = under_way = 0

    async def ask(_item, _limit_s):
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return "read"

    async def run():
        tries = LoneTries(2, at_once)

        async def all_of(items):
            return [x async for x in tries.answers(items, ask)]

        await asyncio.gather(*(all_of([x]) for x in range(10)))

    asyncio.run(run())
    assert most == 2
