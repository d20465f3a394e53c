"""A server on free loopback ports, with an intake that remembers what it was handed."""

import asyncio
import inspect
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.receive.auth import Config as Tenancy, open_authenticators
from spanscore.receive.config import Config
from spanscore.receive.server import Server
from spanscore.telemetry import Meter

FREE_PORTS = {name: {"endpoint": "127.0.0.1:0"} for name in ("grpc", "http", "health")}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


class FakeIntake:
    """Remembers what it was handed; raises `error`, and holds requests back until `gate` is set."""

    def __init__(self):
        self.error = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()
        self.accepted = []
        self.headers = []
        self.set_aside = []
        self.trouble = None
        self.notice = None

    async def accept(self, signal, body, request, headers=()):
        self.entered.set()
        await self.gate.wait()
        if self.error:
            raise self.error
        self.accepted.append((signal, body, request))
        self.headers.append(headers)

    async def quarantine(self, signal, body, reason):
        if self.error:
            raise self.error
        self.set_aside.append((signal, body, reason))

    def health(self):
        return {"open_traces": 3}


@pytest.fixture
def serve():
    """`async with serve(http={...}) as up`: the server, its intake and meter, and a client for each
    protocol.
    """

    @asynccontextmanager
    async def running(
        *, extensions=None, headers=(), tenancy=None, max_bytes_in_flight="256MiB", **overrides
    ):
        protocols = {name: {**FREE_PORTS[name], **overrides.get(name, {})} for name in FREE_PORTS}
        config = Config.model_validate({**protocols, "max_bytes_in_flight": max_bytes_in_flight})
        intake, meter = FakeIntake(), Meter()
        tenants = Tenancy.model_validate(tenancy or {})
        tokens = open_authenticators(extensions or {}, has_tenants=tenants.enabled)
        server = Server(
            config, intake, meter, tokens=tokens, tenancy=tenants, headers=frozenset(headers)
        )
        await server.start()
        try:
            async with (
                aiohttp.ClientSession(f"http://127.0.0.1:{server.http_port}") as http,
                grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
            ):
                yield SimpleNamespace(
                    server=server, intake=intake, meter=meter, http=http, channel=channel
                )
        finally:
            intake.gate.set()
            await server.stop(5.0)

    return running


@pytest.fixture
def traces():
    """Makes a trace request of spans with these names; one called `bad` has no trace id."""

    def make(*names):
        request = ExportTraceServiceRequest()
        by_scope = request.resource_spans.add().scope_spans.add()
        for name in names or ("chat",):
            by_scope.spans.add(
                name=name, trace_id=b"" if name == "bad" else b"t" * 16, span_id=b"s" * 8
            )
        return request

    return make
