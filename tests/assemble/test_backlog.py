"""Requests that are kept until nothing needs them, and the room that they make for others."""

import asyncio

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble.backlog import Backlog
from spanscore.assemble.config import Config
from spanscore.errors import RetryableError
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
