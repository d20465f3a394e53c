"""Checks that a trace and its scores arrive."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import aiohttp
import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2 import GetTraceRequest
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub
from spanscore.cli.checks import Finding, cause_of, fail, ok, warn
from spanscore.cli.checks.endpoints import client_context, listens, reachable, state_of
from spanscore.config import Settings
from spanscore.errors import PermanentError, RetryableError, SpanscoreError
from spanscore.export import open_exporter
from spanscore.export.config import (
    GrpcConfig,
    HttpConfig,
    LangfuseConfig,
    MlflowConfig,
    PhoenixConfig,
    SinkSettings,
)
from spanscore.export.http import JsonApi
from spanscore.export.port import Exporter, UnsupportedSignalError
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import Auth

SERVICE = "spanscore-doctor"
_MS = 10**6


@dataclass(frozen=True, slots=True)
class Probe:
    """One turn: an agent's span that lasted a moment."""

    trace_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    span_id: bytes = field(default_factory=lambda: secrets.token_bytes(8))
    ended_ns: int = field(default_factory=time.time_ns)

    def request(self, *, content: bool, emitted: bool) -> bytes:
        """The span as an export request.

        Without `content` no judge has anything to judge in it. What is marked as `emitted` by
        spanscore is evaluated by none.
        """
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": SERVICE,
        }
        if content:
            attributes["gen_ai.input.messages"] = _messages("user", "Does the round trip work?")
            attributes["gen_ai.output.messages"] = _messages(
                "assistant", "Yes, the round trip works."
            )
        if emitted:
            attributes["spanscore.emitted"] = True
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        codec.fill(group.resource.attributes, {"service.name": SERVICE})
        scoped = group.scope_spans.add()
        scoped.scope.name = "spanscore" if emitted else SERVICE
        span = scoped.spans.add(
            trace_id=self.trace_id,
            span_id=self.span_id,
            name=f"invoke_agent {SERVICE}",
            kind=1,
            start_time_unix_nano=self.ended_ns - _MS,
            end_time_unix_nano=self.ended_ns,
        )
        codec.fill(span.attributes, attributes)
        return request.SerializeToString()


def _messages(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


_NO_TRACE = "0" * 31 + "1"


async def check_backends(settings: Settings, probe: Probe) -> AsyncIterator[Finding]:
    """Each exporter in turn; OTLP backends are sent the `probe`, marked so that nobody evaluates
    it.
    """
    if not settings.export.exporters:
        fix = "name a backend under export.exporters, unless the store is where you want them"
        yield warn("export", "no exporter is configured: scores stay in the store", fix)
    for name, config in settings.export.exporters.items():
        if isinstance(config, GrpcConfig | HttpConfig):
            yield await _otlp(name, config, settings, probe)
        elif isinstance(config, SinkSettings):
            yield await _tool(name, config)


async def _otlp(
    name: str, config: GrpcConfig | HttpConfig, settings: Settings, probe: Probe
) -> Finding:
    try:
        exporter = open_exporter(
            config,
            open_authenticators(settings.authenticators, has_tenants=settings.tenancy.enabled),
        )
    except SpanscoreError as error:
        return fail(name, cause_of(error), f"mend export.exporters.{name}")
    try:
        notes = await _sent(exporter, settings, probe)
    except RetryableError as error:
        return fail(
            name,
            f"{config.endpoint} does not take a span: {cause_of(error)}",
            await _fix(name, config),
        )
    except PermanentError as error:
        return fail(
            name, f"{config.endpoint} refuses a span: {cause_of(error)}", await _fix(name, config)
        )
    finally:
        await exporter.close()
    if notes:
        off = (
            "set export.emit for what it does not take to false, to spare the tries; spans get"
            " through all the same"
        )
        return warn(name, f"{config.endpoint} took a span, but {'; '.join(notes)}", off)
    return ok(
        name,
        f"{config.endpoint} took a span (trace {probe.trace_id.hex()}, service spanscore-doctor)",
    )


async def _fix(name: str, config: GrpcConfig | HttpConfig) -> str:
    """What to do where a backend took nothing: it may be away, or spoken to in the wrong way."""
    where = config.endpoint.removeprefix("http://").removeprefix("https://").partition("/")[0]
    # a URL may leave out the port, and gRPC knows targets of other forms
    with suppress(ValueError):
        if await listens(where):
            return (
                "something listens there: see its log, and whether it expects what is set under "
                f"export.exporters.{name}: endpoint, tls (insecure, ca_file), headers, auth"
            )
    return f"start what is to listen there, or mend export.exporters.{name}.endpoint"


async def _sent(exporter: Exporter, settings: Settings, probe: Probe) -> list[str]:
    """Send a span, and of the other forms of scores an empty request; returns what was not taken
    but the span.
    """
    notes: list[str] = []
    if remark := await exporter.send("traces", probe.request(content=True, emitted=True)):
        notes.append(remark)
    others: tuple[tuple[Signal, bool], ...] = (
        ("logs", settings.export.emit.events),
        ("metrics", settings.export.emit.metrics),
    )
    for signal, wanted in others:
        if wanted:
            try:
                await exporter.send(signal, b"")
            except UnsupportedSignalError as error:
                notes.append(f"it takes no {signal} ({cause_of(error)})")
            except (RetryableError, PermanentError) as error:
                notes.append(f"{signal} fail ({cause_of(error)})")
    return notes


async def _tool(name: str, config: SinkSettings) -> Finding:
    """Ask a tool something harmless that needs the credentials."""
    path, headers = "/", {}
    match config:
        case PhoenixConfig():
            path = "/v1/projects?limit=1"
        case MlflowConfig():
            path = f"/api/3.0/mlflow/traces/tr-{_NO_TRACE}"
        case LangfuseConfig():
            path = "/api/public/projects"
            secret = config.secret_key.get_secret_value()
            pair = base64.b64encode(f"{config.public_key}:{secret}".encode())
            headers = {"Authorization": f"Basic {pair.decode()}"}
    fix = f"start it, or mend export.exporters.{name}: its endpoint, headers or keys"
    try:
        api = JsonApi(config, headers)
    except SpanscoreError as error:
        return fail(name, cause_of(error), fix)
    try:
        async with asyncio.timeout(config.timeout / 1e9):
            await api.ask("GET", path, expected=(404,))
    except (SpanscoreError, TimeoutError) as error:
        return fail(name, f"{config.endpoint} does not answer as it should: {cause_of(error)}", fix)
    finally:
        await api.close()
    return ok(name, f"{config.endpoint} answers, with the credentials given")


T = TypeVar("T")

_ABOUT = "round trip"
_TIMEOUT_S = 5.0
_PATIENCE_S = 20.0
"""What rebuilding and scoring one trace, and sending its scores, may take beside the wait for its
end.
"""

_POLL_S = 0.2
_TENANT = "spanscore-doctor"
"""Whose the probe is where neither a token nor the configuration names a tenant."""

_SEE_LOG = "see the server's log, and `spanscore quarantine`"


class _Caller(NamedTuple):
    """By what the server knows a caller, and which tenant that is."""

    headers: Mapping[str, str]
    tenant: str


async def check_round_trip(
    settings: Settings, state: Mapping[str, Any] | None, probe: Probe, *, scored: bool
) -> Finding:
    """Send the probe; `scored` says whether it is to have content, so that scores come of it."""
    if state is None:
        fix = (
            "start `spanscore serve` with this configuration, then ask again: doctor starts nothing"
            " itself"
        )
        return warn(_ABOUT, "not tried: no spanscore runs with this configuration", fix)
    if (tls := settings.receive.http.tls) is not None and tls.client_ca_file is not None:
        return warn(
            _ABOUT,
            "not tried: doctor has no client certificate to show",
            "send a span with one, as agents do",
        )
    started_s = time.monotonic()
    try:
        sender = await _caller(settings, settings.receive.http.auth)
        await _send(settings, probe.request(content=scored, emitted=False), sender.headers)
        asker = await _caller(settings, settings.api.auth)
    except (aiohttp.ClientError, SpanscoreError, OSError, TimeoutError, ValueError) as error:
        fix = "see the line about OTLP/HTTP, and receive.http.auth"
        return fail(_ABOUT, f"the span was not taken: {cause_of(error)}", fix)
    # The control service is asked for this very trace; with TLS it would want to be called by its
    # certificate's name.
    if not settings.api.enabled or settings.api.tls is not None or asker.tenant != sender.tenant:
        return await _counted(settings, state, started_s)
    return await _followed(settings, probe, started_s, asker, scored=scored)


async def _counted(settings: Settings, before: Mapping[str, Any], started_s: float) -> Finding:
    """By the server's counters, which show that a trace was rebuilt, and not which."""
    known = before["counters"].get("agent_traces", 0)

    async def grown() -> bool | None:
        now = await state_of(settings)
        return True if now is not None and now["counters"].get("agent_traces", 0) > known else None

    if await _until(grown, _deadline_s(settings, started_s)) is None:
        return fail(_ABOUT, _lost(started_s), _SEE_LOG)
    took_s = time.monotonic() - started_s
    return ok(
        _ABOUT,
        f"the span was taken and, after {took_s:.1f} s, an agent trace was rebuilt, as the"
        " counters say",
    )


async def _followed(
    settings: Settings, probe: Probe, started_s: float, asker: _Caller, *, scored: bool
) -> Finding:
    """By the control service, which is asked for this very trace."""
    trace_id, deadline_s = probe.trace_id.hex(), _deadline_s(settings, started_s)
    async with grpc.aio.insecure_channel(reachable(settings.api.endpoint)) as channel:
        traces, kept = TraceServiceStub(channel), ScoreServiceStub(channel)
        ask = partial(
            _found, metadata=[(name.lower(), value) for name, value in asker.headers.items()]
        )
        try:
            trace = await _until(
                lambda: ask(traces.GetTrace, GetTraceRequest(trace_id=trace_id)), deadline_s
            )
            took_s = time.monotonic() - started_s
            if trace is None:
                return fail(_ABOUT, _lost(started_s), _SEE_LOG)
            answer = await ask(kept.ListScores, ListScoresRequest(trace_id=trace_id))
        except grpc.aio.AioRpcError as error:
            untold = (
                f"the span was taken, but the control service on {settings.api.endpoint} does not"
                " tell of it"
            )
            return warn(_ABOUT, f"{untold}: {error.code().name}", "see api.endpoint and api.auth")
    took = f"trace {trace_id} was taken and, after {took_s:.1f} s, rebuilt"
    scores = sum(x.HasField("value") for x in answer.scores) if answer is not None else 0
    if not scored or not scores:
        why = (
            "no metric had anything to score"
            if scored
            else "without content, so that no model was asked"
        )
        return ok(_ABOUT, f"{took}; not scored: {why}")
    return await _sent_on(settings, f"{took} and scored", scores, deadline_s)


async def _sent_on(settings: Settings, took: str, scores: int, deadline_s: float) -> Finding:
    """Whether the scores leave; a tool may wait for the span, which it gets from elsewhere or not
    at all.
    """
    if (
        await _until(lambda: _all_left(settings, settings.export.otlp_exporters), deadline_s)
        is None
    ):
        behind = f"{took} ({scores} scores), but the scores do not leave"
        return fail(_ABOUT, behind, "see the lines about the exporters, and the server's log")
    waiting = [name for name in settings.export.sinks if not await _all_left(settings, [name])]
    to = ", ".join(x for x in settings.export.exporters if x not in waiting) or "the store only"
    went = f"{took}; {scores} scores went to {to}"
    if waiting:
        fix = (
            "send that tool the agents' spans too, if it does not get them; after max_wait its"
            " scores are dropped"
        )
        return warn(
            _ABOUT, f"{went}; {', '.join(waiting)} has not got the span and waits for it", fix
        )
    return ok(_ABOUT, went)


def _deadline_s(settings: Settings, started_s: float) -> float:
    return started_s + settings.assemble.complete_after / 1e9 + _PATIENCE_S


def _lost(started_s: float) -> str:
    return (
        f"the span was taken, but after {time.monotonic() - started_s:.0f} s there is no trace"
        " of it"
    )


async def _send(settings: Settings, body: bytes, known: Mapping[str, str]) -> None:
    config = settings.receive.http
    scheme = "http" if config.tls is None else "https"
    headers = {"Content-Type": "application/x-protobuf", **known}
    context = await asyncio.to_thread(client_context, config.tls)
    url = f"{scheme}://{reachable(config.endpoint)}{WIRE['traces'].path}"
    async with asyncio.timeout(_TIMEOUT_S), aiohttp.ClientSession() as session:
        answer = await session.post(url, data=body, headers=headers, ssl=context)
        if answer.status != 200:
            raise ValueError(f"HTTP {answer.status}")


async def _caller(settings: Settings, auth: Auth | None) -> _Caller:
    """Somebody whom the server knows, by a token where it asks for one, and as a tenant where it
    has tenants.

    Raises ConfigError or RetryableError where the tokens cannot be read.
    """
    headers, tenant, tenancy = {}, None, settings.tenancy
    if auth is not None:
        known = await asyncio.to_thread(
            open_authenticators, settings.authenticators, has_tenants=settings.tenancy.enabled
        )
        tokens = known[auth.authenticator]
        headers, tenant = dict(tokens({}, ())), tokens.shown.tenant
    if tenancy.enabled and tenant is None:
        tenant = tenancy.default or _TENANT
        headers[tenancy.header] = tenant
    return _Caller(headers, tenant or "")


async def _found(
    ask: Callable[..., Awaitable[T]], request: Any, metadata: Sequence[tuple[str, str]]
) -> T | None:
    try:
        return await ask(request, timeout=_TIMEOUT_S, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return None
        raise


async def _all_left(settings: Settings, exporters: Iterable[str]) -> bool | None:
    state = await state_of(settings)
    waiting = {} if state is None else state.get("scores_to_export", {})
    return True if state is not None and not any(waiting.get(name) for name in exporters) else None


async def _until(ask: Callable[[], Awaitable[T | None]], deadline_s: float) -> T | None:
    """What `ask` gives, as soon as it gives anything; None when the time is over."""
    while (found := await ask()) is None and time.monotonic() < deadline_s:  # noqa: ASYNC110 # a server sets no event
        await asyncio.sleep(_POLL_S)
    return found
