"""A backend of a test's own on loopback, traces to store in it, and the URL that reads them."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from spanscore.model.span import Resource, Scope, Span
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE
from spanscore.sources import parse, stored_traces

NOW_NS = 1_700_000_000 * 10**9


@dataclass
class Backend:
    """Answers on loopback by `answer(request)`, a coroutine function; `asked` has every request, in
    order.
    """

    answer: object = None
    asked: list = field(default_factory=list)
    port: int = 0

    async def _handle(self, request):
        body = await request.read()
        self.asked.append(request)
        return await self.answer(request, body)


@pytest.fixture
def backend():
    made, loop, ready = Backend(), asyncio.new_event_loop(), threading.Event()

    async def start():
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", made._handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.port = site._server.sockets[0].getsockname()[1]
        ready.set()
        return runner

    def run():
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


@pytest.fixture
def read():
    """Call it with a URL to get the traces that are stored there."""
    return lambda url, **environ: list(
        stored_traces.stored_traces(parse(url, environ=environ, now_ns=lambda: NOW_NS))
    )


@pytest.fixture
def make_span():
    """Call it to make a span, `started_s` seconds before now; what is not given is plain."""

    def made(
        trace=1,
        span=1,
        *,
        started_s=60,
        took_s=1.0,
        service="shop",
        status=0,
        parent=0,
        **attributes,
    ):
        start_ns = NOW_NS - round(started_s * 10**9)
        return Span(
            f"{trace:032x}",
            f"{span:016x}",
            f"{parent:016x}" if parent else "",
            "chat gpt-4o",
            1,
            start_ns,
            start_ns + round(took_s * 10**9),
            status,
            "",
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", **attributes},
            Resource({"service.name": service}),
            Scope("test", "1"),
        )

    return made


@pytest.fixture
def request_of():
    """Call it with spans to get them as an export request."""

    def made(spans):
        request = WIRE["traces"].request()
        for span in spans:
            by_resource = request.resource_spans.add()
            codec.fill(by_resource.resource.attributes, span.resource.attributes)
            by_scope = by_resource.scope_spans.add()
            by_scope.scope.name, by_scope.scope.version = span.scope.name, span.scope.version
            message = by_scope.spans.add(name=span.name, kind=span.kind)
            message.trace_id, message.span_id = (
                bytes.fromhex(span.trace_id),
                bytes.fromhex(span.span_id),
            )
            message.parent_span_id = bytes.fromhex(span.parent_span_id)
            message.start_time_unix_nano, message.end_time_unix_nano = span.start_ns, span.end_ns
            message.status.code = span.status_code
            codec.fill(message.attributes, span.attributes)
        return request

    return made
