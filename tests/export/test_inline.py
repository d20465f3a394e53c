"""Passing requests on: what leaves at once, what waits, and what is remembered of it over a
restart.
"""

import asyncio
from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble.backlog import Journaled
from spanscore.assemble.fragments import with_tenant
from spanscore.errors import RetryableError
from spanscore.export.config import Inline
from spanscore.export.inline import Passing
from spanscore.model.span import TENANT, tenant_in
from spanscore.store.departures import Leaving

TRACE = b"t" * 16


class FakeSender:
    """Takes requests, and delivers them when it is told to."""

    def __init__(self):
        self.sent = []
        self.headers = []
        self.full = False

    def forward(self, _signal, request, headers):
        if self.full:
            raise RetryableError("full")
        body = request if isinstance(request, bytes) else request.SerializeToString()
        future = asyncio.get_running_loop().create_future()
        self.sent.append((ExportTraceServiceRequest.FromString(body), future))
        self.headers.append(headers)
        return future

    def names(self):
        return [[x.name for x in spans_of(request)] for request, _ in self.sent]

    async def deliver(self):
        for _, future in self.sent:
            if not future.done():
                future.set_result(None)
        await asyncio.sleep(0)


class FakeBook:
    """Remembers as the journal does."""

    def __init__(self):
        self.rest = {}
        self.left = set()
        self.holds = Counter()

    def key(self, trace_id, headers):
        return with_tenant(trace_id, tenant_in(headers))

    def is_genai(self, _key):
        return True

    def hold(self, row):
        self.holds[row] += 1

    def let_go(self, row):
        self.holds[row] -= 1

    def rest_left(self, row, held):
        self.rest[row] = set(held)
        self.let_go(row)

    def span_left(self, row, span):
        self.left.add((row, span))

    def leaving(self, row):
        left = frozenset(span for at, span in self.left if at == row)
        return Leaving(row in self.rest, frozenset(self.rest.get(row, ())) - left, left)


def spans_of(request):
    return [
        x for group in request.resource_spans for scoped in group.scope_spans for x in scoped.spans
    ]


def kept(row, *spans, headers=()):
    """A request of spans, each (name, parent's name)."""
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    for name, parent in spans:
        parent_id = parent.ljust(8).encode() if parent else b""
        scoped.spans.add(
            name=name, trace_id=TRACE, span_id=name.ljust(8).encode(), parent_span_id=parent_id
        )
    return Journaled("traces", row, request.SerializeToString(), request, headers)


@pytest.fixture
def make():
    """Call it to get a `Passing` with its sender; those that share a book are of one spanscore,
    started again.
    """

    def new(book, now_ns=0, **settings):
        sender = FakeSender()
        clock = iter(range(now_ns, 10**18)).__next__
        agent = lambda span, _scope: span.name.startswith("agent")  # noqa: E731 - it stands in for a dialect
        return Passing(Inline(**settings), sender, book, is_agent=agent, clock_ns=clock), sender

    return new


async def test_all_but_the_agent_leaves_at_once(make):
    passing, sender = make(FakeBook())
    passing.pass_on(kept(1, ("model", "agent"), ("agent", "")))
    assert sender.names() == [["model"]]


async def test_a_request_is_kept_until_its_last_span_has_left(make):
    book = FakeBook()
    passing, sender = make(book)
    passing.pass_on(kept(1, ("model", "agent"), ("agent", "")))
    await sender.deliver()
    assert book.holds[1] == 1
    passing.release(passing.take(TRACE), [])
    await sender.deliver()
    assert book.holds[1] == 0


async def test_an_agent_under_another_leaves_when_that_one_comes(make):
    passing, sender = make(FakeBook())
    passing.pass_on(kept(1, ("agent-in", "agent")))
    passing.pass_on(kept(2, ("agent", "")))
    assert sender.names() == [["agent-in"]]


async def test_a_copy_of_an_agents_span_does_not_leave(make):
    passing, sender = make(FakeBook())
    passing.pass_on(kept(1, ("agent", "")))
    passing.release(passing.take(TRACE), [])
    passing.pass_on(kept(2, ("agent", "")))
    assert sender.names() == [["agent"]]


async def test_a_span_that_is_twice_in_one_request_leaves(make):
    book = FakeBook()
    passing, sender = make(book)
    passing.pass_on(kept(1, ("agent", ""), ("agent", "")))
    assert book.leaving(1).left == frozenset()
    passing.release(passing.take(TRACE), [])
    assert sender.names() == [["agent"]]


async def test_what_left_at_its_limit_does_not_leave_again_after_a_restart(make):
    book = FakeBook()
    passing, sender = make(book, max_delay="0")
    passing.pass_on(kept(1, ("agent", "")))
    running = asyncio.create_task(passing.run())
    await asyncio.sleep(0)
    await sender.deliver()
    running.cancel()
    again, sender = make(book)
    again.pass_on(kept(1, ("agent", "")), book.leaving(1))
    assert sender.sent == []
    assert again.held_roots == 0


async def test_what_was_held_back_is_held_back_after_a_restart(make):
    book = FakeBook()
    passing, sender = make(book)
    passing.pass_on(kept(1, ("model", "agent"), ("agent", "")))
    await sender.deliver()
    again, sender = make(book)
    again.pass_on(kept(1, ("model", "agent"), ("agent", "")), book.leaving(1))
    assert (sender.sent, again.held_roots) == ([], 1)


async def test_a_span_that_left_before_the_rest_does_not_leave_with_it_after_a_restart(make):
    book = FakeBook()
    passing, sender = make(book)
    passing.pass_on(kept(1, ("model", "agent"), ("agent", "")))
    passing.release(passing.take(TRACE), [])
    sender.sent[1][1].set_result(None)
    await asyncio.sleep(0)
    again, sender = make(book)
    again.pass_on(kept(1, ("model", "agent"), ("agent", "")), book.leaving(1))
    assert sender.names() == [["model"]]


async def test_what_was_not_delivered_leaves_again_after_a_restart(make):
    book = FakeBook()
    passing, _ = make(book)
    passing.pass_on(kept(1, ("model", "agent"), ("agent", "")))
    passing.release(passing.take(TRACE), [])
    again, sender = make(book)
    again.pass_on(kept(1, ("model", "agent"), ("agent", "")), book.leaving(1))
    assert (sender.names(), again.held_roots) == ([["model"]], 1)


async def test_a_copy_need_not_leave_after_a_restart_either(make):
    book = FakeBook()
    passing, sender = make(book)
    passing.pass_on(kept(1, ("agent", "")))
    passing.pass_on(kept(2, ("agent", "")))
    await sender.deliver()
    again, _ = make(book)
    for row in (1, 2):
        again.pass_on(kept(row, ("agent", "")), book.leaving(row))
    assert again.held_roots == 1


async def test_headers_leave_with_what_they_came_with(make):
    headers = (("x-scope-orgid", "a"),)
    passing, sender = make(FakeBook())
    passing.pass_on(kept(1, ("model", "agent"), ("agent", ""), headers=headers))
    passing.release(passing.take(TRACE), [])
    assert sender.headers == [headers, headers]


async def test_a_copy_of_a_span_that_another_tenant_sent_is_none(make):
    passing, _ = make(FakeBook())
    for row, tenant in enumerate(("acme", "blue"), 1):
        passing.pass_on(kept(row, ("agent", ""), headers=((TENANT, tenant),)))
    assert [len(passing.take(with_tenant(TRACE, x))) for x in ("acme", "blue", "")] == [1, 1, 0]


async def test_what_finds_a_queue_full_leaves_later(make):
    passing, sender = make(FakeBook())
    sender.full = True
    passing.pass_on(kept(1, ("model", "agent")))
    with pytest.raises(RetryableError):
        passing.require_room()
    sender.full = False
    running = asyncio.create_task(passing.run())
    await asyncio.sleep(0)
    running.cancel()
    assert sender.names() == [["model"]]
