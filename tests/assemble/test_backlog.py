"""Requests that are kept until nothing needs them, and the room that they make for others."""

import asyncio

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble.backlog import Backlog
from spanscore.assemble.config import Config
from spanscore.errors import RetryableError
from spanscore.model.span import Delivery
from spanscore.store.config import JournalConfig
from spanscore.store.journal import Journal
from spanscore.telemetry import Meter

BYTES = 1000


class Clock:
    """Ten minutes later at every `pass_time`: whatever is open is complete."""

    now_ns = 10**18

    def __call__(self):
        return self.now_ns

    def pass_time(self):
        self.now_ns += 600 * 10**9


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def backlog(tmp_path, clock):
    """Room for one request of `BYTES` and a half."""
    journal = Journal(JournalConfig(path=tmp_path / "journal.db", max_bytes=BYTES * 3 // 2))
    made = Backlog(Config(), journal, Meter(), shows_genai=lambda _body: True, clock_ns=clock)
    yield made
    made.close()


async def add(backlog, letter):
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=letter * 16, span_id=letter * 8, name="x" * BYTES
    )
    kept = await backlog.add("traces", request.SerializeToString(), request)
    backlog.let_go(kept.row)


def test_an_open_trace_keeps_its_room(backlog):
    async def two():
        await add(backlog, b"a")
        await add(backlog, b"b")

    with pytest.raises(RetryableError, match="the journal is full"):
        asyncio.run(two())


def test_a_request_that_needs_the_room_of_a_finished_trace_has_it_at_its_first_attempt(
    backlog, clock
):
    async def one_after_the_other():
        await add(backlog, b"a")
        clock.pass_time()
        backlog.finish(backlog.cut(clock()))
        await add(backlog, b"b")

    asyncio.run(one_after_the_other())
    assert BYTES < backlog.size_bytes < 2 * BYTES


@pytest.fixture
def roomy(tmp_path, clock):
    journal = Journal(JournalConfig(path=tmp_path / "roomy.db"))
    made = Backlog(Config(), journal, Meter(), shows_genai=lambda _body: True, clock_ns=clock)
    yield made
    made.close()


@pytest.fixture
def done():
    return []


async def deliver(backlog, letter, done, partition=0, offset=0):
    """Add a message of a partition, whose offset is in `done` once it is."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=letter * 16, span_id=letter * 8
    )
    delivery = Delivery(("t", partition), offset, lambda: done.append(offset))
    kept = await backlog.add("traces", request.SerializeToString(), request, (), delivery)
    backlog.let_go(kept.row)


def test_a_message_is_done_when_no_late_span_can_need_it(roomy, clock, done):
    asyncio.run(deliver(roomy, b"a", done, offset=7))
    clock.pass_time()
    roomy.finish(roomy.cut(clock()))
    assert not done
    clock.pass_time()
    roomy.cut(clock())
    assert done == [7]


def test_what_is_forgotten_of_a_partition_leaves_the_others(roomy, clock, done):
    async def two():
        await deliver(roomy, b"a", done, partition=0)
        await deliver(roomy, b"b", done, partition=1)

    asyncio.run(two())
    rows = roomy.rows_of([("t", 0)])
    roomy.assembler.forget(rows)
    clock.pass_time()
    assert [cut.key for cut in roomy.cut(clock())] == [b"b" * 16]
    assert len(rows) == 1


def test_what_is_forgotten_of_a_scored_trace_cannot_be_reopened(roomy, clock, done):
    asyncio.run(deliver(roomy, b"a", done))
    clock.pass_time()
    roomy.finish(roomy.cut(clock()))
    roomy.assembler.forget(roomy.rows_of([("t", 0)]))
    assert not roomy.assembler.can_read(b"a" * 16)


def test_a_cut_in_work_keeps_what_was_forgotten_until_it_is_done(roomy, clock, done):
    asyncio.run(deliver(roomy, b"a", done))
    clock.pass_time()
    (cut,) = roomy.cut(clock())
    roomy.assembler.forget(roomy.rows_of([("t", 0)]))
    spans, _ = roomy.load(cut)
    assert len(spans) == 1


def test_a_restart_drops_what_is_delivered_again_and_keeps_the_rest(tmp_path, clock, done):
    def opened():
        journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
        return Backlog(Config(), journal, Meter(), shows_genai=lambda _: True, clock_ns=clock)

    async def both(backlog):
        await deliver(backlog, b"a", done)
        await add(backlog, b"b")

    first = opened()
    asyncio.run(both(first))
    first.close()
    second = opened()
    found = list(second.recover(delivered=False))
    second.close()
    assert [x.message.resource_spans[0].scope_spans[0].spans[0].trace_id for x, _ in found] == [
        b"b" * 16
    ]


def test_after_a_restart_what_is_delivered_again_is_not_late(tmp_path, clock, done):
    """A scored trace whose requests stayed would be; this one comes again, perhaps with more."""

    def opened():
        journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
        return Backlog(Config(), journal, Meter(), shows_genai=lambda _: True, clock_ns=clock)

    first = opened()
    asyncio.run(deliver(first, b"a", done))
    clock.pass_time()
    first.finish(first.cut(clock()))
    first.close()
    second = opened()
    list(second.recover(delivered=False))
    asyncio.run(deliver(second, b"a", done))
    clock.pass_time()
    (cut,) = second.cut(clock())
    second.close()
    assert not cut.after_ns
