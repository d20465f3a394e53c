"""What becomes of spans that are held back for their scores."""

import asyncio

from spanscore.assemble.assembler import Cut, Sessions, WorkQueue
from spanscore.assemble.config import Config
from spanscore.serving.completion import Finishing
from spanscore.telemetry import Meter
from spanscore.turn_scheduling import ReadJob, ReadResult
from spanscore.workers import InThreads

TRACE = b"t" * 16
HELD = "the root"


class AnyScheduler:
    """Reads nothing, and has nothing wait."""

    def read(self, job):
        return ReadResult(job)

    def hold_back(self, result, now_ns):
        return False

    def finished(self, job, now_ns):
        pass

    def is_part(self, cut):
        return False


class FullStore:
    """The scoring over a store that refuses what it is given."""

    async def patiently(self, ask, *arguments):
        return ask(*arguments)

    def new(self, traces, first):
        return []

    def left_over(self, cuts, traces):
        return []

    def begin(self, traces):
        pass

    async def commit(self, traces, evaluations, *, left_over):
        raise OverflowError


class Spans:
    """Holds the spans of cut traces."""

    def __init__(self):
        self.reasons = []

    def finish(self, cuts, *, parts=()):
        pass

    def put_aside(self, cut, reason):
        self.reasons.append(reason)


class HoldsBack:
    """Holds one span."""

    def __init__(self):
        self.held, self.released = [HELD], []

    def take(self, trace_id):
        held, self.held = self.held, []
        return [type("Held", (), {"span_id": x}) for x in held]

    def release(self, held, evaluations, left):
        self.released += [(x.span_id, list(evaluations)) for x in held]
        left()


def finishing_of(scheduler, scoring, reading, suspects=None):
    return Finishing(
        scheduler,
        scoring,
        Spans(),
        Sessions(Config()),
        Meter(),
        reading=reading,
        suspects=WorkQueue(10) if suspects is None else suspects,
    )


class DyingWorkers:
    """Reads no batch, since its processes die."""

    async def read(self, _jobs):
        return {}


def test_the_traces_of_a_batch_on_which_a_process_died_wait_elsewhere_and_the_next_batch_begins():
    suspects = WorkQueue(10)
    finishing = finishing_of(AnyScheduler(), FullStore(), DyingWorkers(), suspects)
    cut = Cut(TRACE, rows=(1,), completeness="complete", genai=True, reopened=False)
    asyncio.run(finishing.batch([ReadJob((cut,))]))
    assert len(suspects) == 1


def test_a_held_span_leaves_without_scores_where_its_trace_cannot_be_stored():
    scheduler = AnyScheduler()
    reading = InThreads(scheduler, ())
    finishing = finishing_of(scheduler, FullStore(), reading)
    finishing.holds_back = HoldsBack()
    cut = Cut(TRACE, rows=(1,), completeness="complete", genai=True, reopened=False)
    asyncio.run(finishing.batch([ReadJob((cut,))]))
    assert finishing.holds_back.released == [(HELD, [])]
