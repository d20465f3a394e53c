"""Checks of a running server: its ports, what it refused, and whether a trace comes round."""

import asyncio
import contextlib
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp
import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2 import GetTraceRequest
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub
from spanscore.cli.doctor_machine import SERVICE, Finding, Probe, cause_of, fail, listens, ok, warn
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.evaluation.rules import DEFAULT, Rule
from spanscore.model.json import loads
from spanscore.otlp.signal import WIRE
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import Auth, Grpc, Tls, split_endpoint
from spanscore.receive.server import ELSEWHERE
from spanscore.telemetry import declared, formats

_NOBODY = "start it with `spanscore serve` and this configuration, or see its log if it should run"


def reachable(endpoint: str) -> str:
    """`host:port` to connect to: an address that means all of them is reached by loopback.

    >>> reachable("0.0.0.0:4327"), reachable("[::]:4327")
    ('127.0.0.1:4327', '[::1]:4327')
    """
    host, port = split_endpoint(endpoint)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 # it is not bound, but replaced
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def client_context(tls: Tls | None) -> ssl.SSLContext | bool:
    """TLS towards our own server, whose very certificate is trusted, whatever name it is for."""
    if tls is None:
        return True
    context = ssl.create_default_context(cafile=tls.cert_file)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def state_of(settings: Settings) -> Mapping[str, Any] | None:
    """What the health check of the running server says; None where none runs."""
    health = settings.receive.health
    places = [health.endpoint] + ([] if "endpoint" in health.model_fields_set else [ELSEWHERE])
    for place in places:
        state = await _state(f"http://{reachable(place)}{health.path}")
        if state is not None and "counters" in state:
            return {**state, "endpoint": place}
    return None


async def check_endpoints(
    settings: Settings, state: Mapping[str, Any] | None
) -> AsyncIterator[Finding]:
    """Health, gRPC and HTTP; `state` is what `state_of` gave."""
    yield await _health(settings, state)
    yield await _grpc(settings.receive.grpc)
    yield await _http(settings)


async def _health(settings: Settings, state: Mapping[str, Any] | None) -> Finding:
    endpoint = settings.receive.health.endpoint
    if state is None:
        if await listens(reachable(endpoint)):
            fix = (
                "set receive.health.endpoint to a free port: a collector's health check has"
                " 13133 too"
            )
            return warn("health", f"something else than spanscore answers on {endpoint}", fix)
        return warn("health", f"nothing listens on {endpoint}", _NOBODY)
    if state.get("status") != "Server available":
        fix = "see its log; docs/watching.md says what each reason means"
        return fail(
            "health",
            f"spanscore on {state['endpoint']} takes no requests: {state.get('reason')}",
            fix,
        )
    return ok("health", f"spanscore runs on {state['endpoint']}, since {state.get('upSince')}")


async def _grpc(config: Grpc) -> Finding:
    about, where = "OTLP/gRPC", reachable(config.endpoint)
    if not await listens(where):
        return warn(about, f"nothing listens on {config.endpoint}", _NOBODY)
    if config.tls is not None:
        return await _handshake(about, where, config.tls)
    elsewhere = "set receive.grpc.endpoint to a free port, or stop what listens there"
    async with grpc.aio.insecure_channel(where) as channel:
        try:
            answer = await HealthStub(channel).Check(
                HealthCheckRequest(service=WIRE["traces"].service), timeout=_TIMEOUT_S
            )
        except grpc.aio.AioRpcError as error:
            problem = (
                f"what listens on {config.endpoint} is not spanscore, or wants TLS"
                f" ({error.code().name})"
            )
            return fail(about, problem, elsewhere)
    if answer.status != HealthCheckResponse.SERVING:
        return fail(
            about,
            f"spanscore on {config.endpoint} takes no requests",
            "see what its health check says",
        )
    return ok(about, f"spanscore takes requests on {config.endpoint}")


async def _http(settings: Settings) -> Finding:
    config, about = settings.receive.http, "OTLP/HTTP"
    where = reachable(config.endpoint)
    if not await listens(where):
        return warn(about, f"nothing listens on {config.endpoint}", _NOBODY)
    if config.tls is not None:
        return await _handshake(about, where, config.tls)
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT_S), aiohttp.ClientSession() as session:
            answer = await session.get(f"http://{where}/")
            if answer.status == 404 and "OTLP is taken at" in await answer.text(errors="replace"):
                return ok(about, f"spanscore takes requests on {config.endpoint}")
    elsewhere = "set receive.http.endpoint to a free port, or stop what listens there"
    return fail(
        about, f"what listens on {config.endpoint} is not spanscore, or wants TLS", elsewhere
    )


async def _handshake(about: str, where: str, tls: Tls) -> Finding:
    """Whether what listens there has the certificate that is configured."""
    if tls.client_ca_file is not None:
        return ok(
            about, f"{where} listens; clients must show a certificate, which doctor has not got"
        )
    host, port = split_endpoint(where)
    fix = "see tls.cert_file: is it newer than what the server has read, or is it another server?"
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            context = await asyncio.to_thread(client_context, tls)
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
            writer.close()
    except (OSError, TimeoutError) as error:
        return fail(about, f"{where} does not speak TLS with {tls.cert_file}: {error}", fix)
    return ok(about, f"{where} speaks TLS with {tls.cert_file}")


async def _state(url: str) -> Mapping[str, Any] | None:
    try:
        state = loads(await _page(url) or "")
    except ValueError:
        return None
    return state if isinstance(state, Mapping) else None


async def _page(url: str) -> str | None:
    """What is at a URL; None where nothing answers there."""
    try:
        async with asyncio.timeout(_TIMEOUT_S), aiohttp.ClientSession() as session:
            answer = await session.get(url)
            return await answer.text(errors="replace")
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


_FIXES: Final = {
    "unread": (
        "over gRPC senders compress with gzip or not at all, since gRPC for Python refuses zstd and"
        " snappy; and their batches stay below receive.grpc.max_recv_msg_size_mib"
    ),
    "too_large": "keep senders' batches below receive.http.max_request_body_size",
    "unauthenticated": (
        "give senders one of the tokens of `receive`, as the header `authorization: Bearer TOKEN`;"
        " with `tenancy` they name their tenant too, in the header tenancy.header, unless the token"
        " is a tenant's"
    ),
    "not_otlp": (
        "senders post protobuf or JSON to /v1/traces, /v1/logs or /v1/metrics: see their endpoint"
        " and protocol"
    ),
    "malformed": "what senders compress or send in chunks arrives damaged: is a proxy between?",
}
"""What to do, by the reasons for which a request is refused and does not come back."""


async def check_senders(state: Mapping[str, Any]) -> Finding:
    """Of the server whose health check gave `state`, since it was started."""
    counted = await _counters(state, declared.RECEIVER_REFUSED_REQUESTS)
    if counted is None:
        fix = "ask again, or see the server's log"
        return warn("senders", "its page of metrics does not answer", fix)
    refused = Counter[str]()
    for labels, count in counted:
        refused[labels.get("reason", "")] += count
    lost = {reason: count for reason, count in refused.most_common() if reason in _FIXES}
    if not lost:
        return ok("senders", "no request was refused for good since the start")
    counts = ", ".join(f"{count} {reason}" for reason, count in lost.items())
    problem = f"requests were refused for good, which collectors drop: {counts}"
    return warn("senders", problem, _FIXES[next(iter(lost))])


def check_content(state: Mapping[str, Any]) -> Finding:
    """Whether the traces that came since the start of the server with this `state` hold content."""
    silent = state.get("without_content", [])
    if not silent:
        return ok(
            "content",
            "every instrumentation that sent agent traces since the start records content",
        )
    what, _, how = silent[0].partition(". To record them, ")
    more = f", and {len(silent) - 1} more likewise" if len(silent) > 1 else ""
    return warn("content", f"{what}{more}", f"{how}, where the agent runs")


async def _counters(
    state: Mapping[str, Any], metric: declared.Declared
) -> list[tuple[dict[str, str], int]] | None:
    """What the server whose health check gave `state` has counted under a metric, each with its
    labels; None where its page of metrics does not answer.
    """
    page = await _page(f"http://{reachable(state['endpoint'])}/metrics")
    if page is None:
        return None
    line = re.compile(formats.name(metric) + r"\{(.*)\} (\S+)")
    found = line.findall(page)
    return [(dict(_LABEL.findall(labels)), int(float(count))) for labels, count in found]


_ABOUT_RULES = "rules"
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MANY = 1000
"""Traces after which a rule that has taken none may be one that is written wrong."""


async def check_rules(settings: Settings, state: Mapping[str, Any] | None) -> Finding:
    """`state` is what the health check of the running server gave; None where none answers."""
    evaluation = settings.evaluation
    if not evaluation.rules:
        return ok(
            _ABOUT_RULES,
            f"none: all traces are treated alike, with the share {evaluation.sampling:g}",
        )
    taken = None if state is None else await _taken(state)
    shown = [
        *(
            f"{x.name} ({_share(x, evaluation.sampling)}{_of(taken, x.name)})"
            for x in evaluation.rules
        ),
        f"no rule (share {evaluation.sampling:g}{_of(taken, DEFAULT)})",
    ]
    idle = [] if taken is None else [x.name for x in evaluation.rules if not taken[x.name]]
    if taken is not None and idle and taken.total() >= _MANY:
        return warn(
            _ABOUT_RULES,
            f"of {taken.total():,} traces none was taken by {', '.join(idle)}; in their order:"
            f" {', '.join(shown)}",
            "see with `spanscore inspect -c FILE PATH` which rule takes which trace",
        )
    return ok(_ABOUT_RULES, f"in their order: {', '.join(shown)}")


async def _taken(state: Mapping[str, Any]) -> Counter[str] | None:
    """How many traces each rule has taken since the start; None where the server does not say."""
    counted = await _counters(state, declared.RULES_DECISIONS)
    if counted is None:
        return None
    found = Counter[str]()
    for labels, count in counted:
        if labels.get("scope") == "trace":
            found[labels.get("rule", "")] += count
    return found


def _share(rule: Rule, usual: float) -> str:
    if not rule.measures:
        return "nothing is measured"
    return f"share {usual if rule.sampling is None else rule.sampling:g}"


def _of(taken: Counter[str] | None, name: str) -> str:
    return "" if taken is None else f", took {taken[name]:,}"


T = TypeVar("T")

_ABOUT = "round trip"
_TIMEOUT_S = 5.0
_PATIENCE_S = 20.0
"""What rebuilding and scoring one trace, and sending its scores, may take beside the wait for its
end.
"""

_POLL_S = 0.2
_TENANT = SERVICE
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
