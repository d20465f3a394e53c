"""Jobs that worker processes read: none is lost when one dies, and what kills them is found."""

import asyncio

import pytest

from spanscore.assemble.assembler import Cut
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult
from spanscore.watches import ContentNote
from spanscore.worker_processes import WorkerDiedError
from spanscore.workers import InProcesses, LoneTries
from spanscore.workers.answers import Answers, Failed
from spanscore.workers.readers import KillsWorkersError, ReadFailedError, reason

FRAGMENT = object()


def job(number, kind=JobKind.TRACE):
    return ReadJob(
        (Cut(bytes([number] * 16), (number,), "complete", genai=True, reopened=False),), kind
    )


class Pool:
    """Answers each task by `answer`, and dies where that says so."""

    def __init__(self, answer=lambda task: ReadResult(task.job), notes=()):
        self.answer = answer
        self.notes = notes
        self.asked = []

    async def ask(self, tasks, *, alone_s=None):
        self.asked.append(list(tasks))
        return Answers([self.answer(task) for task in tasks], [self.notes for _ in tasks])

    def health(self):
        return []


class Scheduler:
    """Of some trace ids it knows that other traces refer to them."""

    def __init__(self, referred=()):
        self.referred = referred

    def is_referred_to(self, job, _ids_of_calls, _hints):
        return job.trace_id in self.referred

    def marked(self, result):
        return result


class Here:
    """Reads in this process."""

    async def read(self, jobs):
        return {job: ReadResult(job, fragment=FRAGMENT) for job in jobs}


def reading(pool, scheduler=None, notes=None):
    noted = (lambda _: None) if notes is None else notes.append
    scheduler = scheduler or Scheduler()
    lone_tries = LoneTries(sleep=at_once)
    return InProcesses(pool, scheduler, here=Here(), noted=noted, lone_tries=lone_tries)


async def at_once(_seconds):
    """Sleeps for no time."""


def as_it_came(jobs, *arguments, **options):
    """What was read of jobs together, then of the others one by one, with their jobs."""

    async def run():
        found = await (all_ := reading(*arguments, **options)).read(jobs)
        left = [job for job in jobs if job not in found]
        return [*found.items(), *[x async for x in all_.read_one_by_one(left)]]

    return asyncio.run(run())


def read(jobs, *arguments, **options):
    """What was read of each job, in their order."""
    found = dict(as_it_came(jobs, *arguments, **options))
    return [found[job] for job in jobs]


def dying(number, times):
    """A pool whose process dies so often when it reads one trace."""
    left = [times]

    def answer(task):
        if task.job.cuts[0].rows == (number,) and left[0]:
            left[0] -= 1
            raise WorkerDiedError("ended with 9")
        return ReadResult(task.job)

    return Pool(answer)


def test_what_was_read_is_of_the_jobs_that_were_given_in_their_order():
    jobs = [job(1), job(2)]
    assert [x.job for x in read(jobs, Pool())] == jobs


def test_a_trace_that_another_refers_to_is_read_once_more_as_such():
    jobs = [job(1), job(2)]
    pool = Pool()
    read(jobs, pool, Scheduler([jobs[1].trace_id]))
    assert [(x.job.trace_id, x.is_referred_to) for x in pool.asked[1]] == [(jobs[1].trace_id, True)]


def test_a_turn_is_read_once():
    turn = job(1, JobKind.TURN)
    pool = Pool()
    read([turn], pool, Scheduler([turn.trace_id]))
    assert len(pool.asked) == 1


@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_job_is_read_though_processes_die(times):
    jobs = [job(1), job(2), job(3)]
    assert [x.job for x in read(jobs, dying(2, times))] == jobs


def test_a_trace_on_which_processes_die_again_and_again_is_given_up_and_others_are_read():
    jobs = [job(1), job(2), job(3)]
    first, second, third = read(jobs, dying(2, 100))
    assert (first.job, third.job) == (jobs[0], jobs[2])
    assert isinstance(second, KillsWorkersError)
    assert "3 worker processes died while they worked on it" in reason(second)


def test_what_was_read_of_the_others_does_not_wait_for_a_trace_that_kills_processes():
    jobs = [job(1), job(2), job(3)]
    assert [x for x, _ in as_it_came(jobs, dying(2, 100))] == [jobs[0], jobs[2], jobs[1]]


def test_nothing_is_read_one_by_one_before_a_process_has_died():
    jobs = [job(1), job(2), job(3)]
    assert list(asyncio.run(reading(dying(2, 0)).read(jobs))) == jobs


def test_of_jobs_on_which_a_process_died_nothing_is_read_together():
    assert asyncio.run(reading(dying(2, 100)).read([job(1), job(2)])) == {}


def test_an_error_of_one_trace_that_is_read_alone_leaves_the_others():
    jobs = [job(1), job(2)]

    def answer(task):
        if task.job is jobs[0]:
            raise MemoryError
        return ReadResult(task.job)

    async def run():
        return [type(read) async for _, read in reading(Pool(answer)).read_one_by_one(jobs)]

    assert asyncio.run(run()) == [MemoryError, ReadResult]


def test_a_trace_that_may_kill_a_process_is_tried_in_one_of_its_own():
    pool = dying(1, 1)
    ask, alone = pool.ask, []

    async def noted(tasks, *, alone_s=None):
        alone.append(alone_s is not None)
        return await ask(tasks)

    pool.ask = noted
    read([job(1), job(2)], pool)
    assert alone == [False, True, True]


def test_an_error_comes_with_its_class_and_where_it_was_raised():
    (found,) = read([job(1)], Pool(lambda _: Failed("ValueError", "line 3")))
    assert isinstance(found, ReadFailedError)
    assert reason(found) == "ValueError"
    assert "line 3" in str(found)


def test_where_the_journal_cannot_be_read_elsewhere_it_is_read_here():
    (found,) = read([job(1)], Pool(lambda _: Failed("RetryableError", "", is_for_server=True)))
    assert found.fragment is FRAGMENT


def test_what_was_noted_of_content_elsewhere_is_passed_on():
    note, notes = ContentNote(("shop", ("semconv",))), []
    read([job(1)], Pool(notes=[note]), notes=notes)
    assert notes == [note]


def test_a_trace_that_is_read_once_more_as_referred_to_is_noted_once():
    note, notes = ContentNote(("shop", ("semconv",))), []
    read([job(1)], Pool(notes=[note]), Scheduler([job(1).trace_id]), notes)
    assert notes == [note]


def test_what_the_server_reads_itself_is_noted_there_alone():
    note, notes = ContentNote(("shop", ("semconv",))), []
    unsent = Failed("RecursionError", "", is_for_server=True)
    read([job(1)], Pool(lambda _: unsent, notes=[note]), notes=notes)
    assert notes == []
