"""Checks of a running server: its ports, what it refused, and whether a trace comes round."""

import argparse
import asyncio
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

from spanscore import config
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2 import GetTraceRequest
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub
from spanscore.cli import doctor_machine
from spanscore.cli.doctor_machine import Finding, Look, Probe, Problem, cause_of, fail, found, warn
from spanscore.cli.terminal import console
from spanscore.config import Settings
from spanscore.errors import ConfigError, SpanscoreError
from spanscore.evaluation.config import Config as Evaluation
from spanscore.evaluation.rules import DEFAULT, Rule
from spanscore.model.json import loads
from spanscore.otlp.signal import WIRE
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import Auth, Grpc, Http, Tls, split_endpoint
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


async def check_endpoints(look: Look) -> AsyncIterator[Finding]:
    """Health, gRPC and HTTP."""
    yield await found("health", _health(look.settings, look.state))
    yield await found("OTLP/gRPC", _grpc(look.settings.receive.grpc))
    yield await found("OTLP/HTTP", _http(look.settings.receive.http))


async def _health(settings: Settings, state: Mapping[str, Any] | None) -> str:
    endpoint = settings.receive.health.endpoint
    if state is None:
        if await doctor_machine.listens(reachable(endpoint)):
            free = "set receive.health.endpoint to a free port"
            fix = f"{free}: a collector's health check has 13133 too"
            raise warn(f"something else than spanscore answers on {endpoint}", fix)
        raise warn(f"nothing listens on {endpoint}", _NOBODY)
    if state.get("status") != "Server available":
        problem = f"spanscore on {state['endpoint']} takes no requests: {state.get('reason')}"
        raise fail(problem, "see its log; docs/watching.md says what each reason means")
    return f"spanscore runs on {state['endpoint']}, since {state.get('upSince')}"


async def _grpc(config: Grpc) -> str:
    where = await _listening(config.endpoint)
    if config.tls is not None:
        return await _handshake(where, config.tls)
    async with grpc.aio.insecure_channel(where) as channel:
        request = HealthCheckRequest(service=WIRE["traces"].service)
        try:
            answer = await HealthStub(channel).Check(request, timeout=doctor_machine.TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise _another("grpc", config.endpoint, f" ({error.code().name})") from error
    if answer.status != HealthCheckResponse.SERVING:
        problem = f"spanscore on {config.endpoint} takes no requests"
        raise fail(problem, "see what its health check says")
    return f"spanscore takes requests on {config.endpoint}"


async def _http(config: Http) -> str:
    where = await _listening(config.endpoint)
    if config.tls is not None:
        return await _handshake(where, config.tls)
    if "OTLP is taken at" in (await _page(f"http://{where}/") or ""):
        return f"spanscore takes requests on {config.endpoint}"
    raise _another("http", config.endpoint)


async def _listening(endpoint: str) -> str:
    """Where to connect to for an endpoint. Raises Problem where nothing listens there."""
    where = reachable(endpoint)
    if not await doctor_machine.listens(where):
        raise warn(f"nothing listens on {endpoint}", _NOBODY)
    return where


def _another(protocol: str, endpoint: str, why: str = "") -> Problem:
    problem = f"what listens on {endpoint} is not spanscore, or wants TLS{why}"
    elsewhere = f"set receive.{protocol}.endpoint to a free port, or stop what listens there"
    return fail(problem, elsewhere)


async def _handshake(where: str, tls: Tls) -> str:
    """Say whether what listens there has the certificate that is configured."""
    if tls.client_ca_file is not None:
        return f"{where} listens; clients must show a certificate, which doctor has not got"
    host, port = split_endpoint(where)
    fix = "see tls.cert_file: is it newer than what the server has read, or is it another server?"
    try:
        async with asyncio.timeout(doctor_machine.TIMEOUT_S):
            context = await asyncio.to_thread(client_context, tls)
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
            writer.close()
    except (OSError, TimeoutError) as error:
        raise fail(f"{where} does not speak TLS with {tls.cert_file}: {error}", fix) from error
    return f"{where} speaks TLS with {tls.cert_file}"


async def _state(url: str) -> Mapping[str, Any] | None:
    try:
        state = loads(await _page(url) or "")
    except ValueError:
        return None
    return state if isinstance(state, Mapping) else None


async def _page(url: str) -> str | None:
    """What is at a URL; None where nothing answers there."""
    try:
        async with asyncio.timeout(doctor_machine.TIMEOUT_S), aiohttp.ClientSession() as session:
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


async def check_state(look: Look) -> AsyncIterator[Finding]:
    """What the running server says of itself."""
    if look.state is not None:
        yield await found("senders", _senders(look.state))
        yield await found("content", _content(look.state.get("without_content", [])))
        for model, judge in look.state.get("judge", {}).items():
            if judge["status"] in {"fails", "answers"}:
                yield await found("server's judge", _judge_of_server(model, judge))


async def _senders(state: Mapping[str, Any]) -> str:
    """Of the server whose health check gave `state`, since it was started."""
    counted = await _counters(state, declared.RECEIVER_REFUSED_REQUESTS)
    if counted is None:
        raise warn("its page of metrics does not answer", "ask again, or see the server's log")
    refused = Counter[str]()
    for labels, count in counted:
        refused[labels.get("reason", "")] += count
    lost = {reason: count for reason, count in refused.most_common() if reason in _FIXES}
    if not lost:
        return "no request was refused for good since the start"
    counts = ", ".join(f"{count} {reason}" for reason, count in lost.items())
    problem = f"requests were refused for good, which collectors drop: {counts}"
    raise warn(problem, _FIXES[next(iter(lost))])


async def _content(silent: Sequence[str]) -> str:
    """Of the traces that came since the start."""
    if not silent:
        return "every instrumentation that sent agent traces since the start records content"
    what, _, how = silent[0].partition(". To record them, ")
    more = f", and {len(silent) - 1} more likewise" if len(silent) > 1 else ""
    raise warn(f"{what}{more}", f"{how}, where the agent runs")


async def _judge_of_server(model: str, judge: Mapping[str, str]) -> str:
    """The server may ask a model with another key than this command has."""
    if judge["status"] == "answers":
        return f"{model} answers the server"
    fix = f"{judge['fix']}; where the server runs"
    raise fail(f"the server gets no answer: {judge['reason']}", fix)


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


_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MANY = 1000
"""Traces after which a rule that has taken none may be one that is written wrong."""


async def check_rules(look: Look) -> AsyncIterator[Finding]:
    """Of a running server with how many traces each rule took."""
    yield await found("rules", _rules(look.settings.evaluation, look.state))


async def _rules(evaluation: Evaluation, state: Mapping[str, Any] | None) -> str:
    if not evaluation.rules:
        return f"none: all traces are treated alike, with the share {evaluation.sampling:g}"
    taken = None if state is None else await _taken(state)
    shares = {x.name: _share(x, evaluation.sampling) for x in evaluation.rules}
    shown = [f"{name} ({share}{_of(taken, name)})" for name, share in shares.items()]
    shown.append(f"no rule (share {evaluation.sampling:g}{_of(taken, DEFAULT)})")
    order = f"in their order: {', '.join(shown)}"
    idle = [] if taken is None else [name for name in shares if not taken[name]]
    if taken is not None and idle and taken.total() >= _MANY:
        problem = f"of {taken.total():,} traces none was taken by {', '.join(idle)}; {order}"
        fix = "see with `spanscore inspect -c FILE PATH` which rule takes which trace"
        raise warn(problem, fix)
    return order


async def _taken(state: Mapping[str, Any]) -> Counter[str] | None:
    """How many traces each rule has taken since the start; None where the server does not say."""
    counted = await _counters(state, declared.RULES_DECISIONS)
    if counted is None:
        return None
    taken = Counter[str]()
    for labels, count in counted:
        taken[labels.get("rule", "")] += count if labels.get("scope") == "trace" else 0
    return taken


def _share(rule: Rule, usual: float) -> str:
    if not rule.measures:
        return "nothing is measured"
    return f"share {usual if rule.sampling is None else rule.sampling:g}"


def _of(taken: Counter[str] | None, name: str) -> str:
    return "" if taken is None else f", took {taken[name]:,}"


T = TypeVar("T")

_PATIENCE_S = 20.0
"""What rebuilding and scoring one trace, and sending its scores, may take beside the wait for its
end.
"""

_POLL_S = 0.2
_TENANT = doctor_machine.SERVICE
"""Whose the probe is where neither a token nor the configuration names a tenant."""


class _Caller(NamedTuple):
    """By what the server knows a caller, and which tenant that is."""

    headers: Mapping[str, str]
    tenant: str


async def check_round_trip(look: Look) -> AsyncIterator[Finding]:
    """Send the probe, with content where scores of it cost nothing."""
    yield await found("round trip", _round_trip(look))


async def _round_trip(look: Look) -> str:
    settings, tls = look.settings, look.settings.receive.http.tls
    if look.state is None:
        fix = "start `spanscore serve` with this configuration, then ask again"
        fix += ": doctor starts nothing itself"
        raise warn("not tried: no spanscore runs with this configuration", fix)
    if tls is not None and tls.client_ca_file is not None:
        problem = "not tried: doctor has no client certificate to show"
        raise warn(problem, "send a span with one, as agents do")
    started_s, scored = time.monotonic(), not any(x.models for x in settings.judges)
    waits_s = settings.assemble.complete_after / 1e9
    what = f"waiting for a span to come round, for {waits_s:.0f} s or more"
    with console(to_stderr=True).status(what):
        try:
            sender = await _caller(settings, settings.receive.http.auth)
            body = look.probe.request(content=scored, emitted=False)
            await _send(settings, body, sender.headers)
            asker = await _caller(settings, settings.api.auth)
        except (aiohttp.ClientError, SpanscoreError, OSError, TimeoutError, ValueError) as error:
            fix = "see the line about OTLP/HTTP, and receive.http.auth"
            raise fail(f"the span was not taken: {cause_of(error)}", fix) from error
        # The control service is asked for this very trace; with TLS it would want to be called by
        # its certificate's name.
        api = settings.api
        if not api.enabled or api.tls is not None or asker.tenant != sender.tenant:
            return await _counted(settings, look.state, started_s)
        return await _followed(look, started_s, asker, scored=scored)


async def _counted(settings: Settings, before: Mapping[str, Any], started_s: float) -> str:
    """By the server's counters, which show that a trace was rebuilt, and not which."""
    known = before["counters"].get("agent_traces", 0)

    async def grown() -> bool | None:
        now = await state_of(settings)
        return True if now is not None and now["counters"].get("agent_traces", 0) > known else None

    if await _until(grown, _deadline_s(settings, started_s)) is None:
        raise _lost(started_s)
    took = f"the span was taken and, after {time.monotonic() - started_s:.1f} s,"
    return f"{took} an agent trace was rebuilt, as the counters say"


async def _followed(look: Look, started_s: float, asker: _Caller, *, scored: bool) -> str:
    """By the control service, which is asked for this very trace."""
    settings, trace_id = look.settings, look.probe.trace_id.hex()
    deadline_s = _deadline_s(settings, started_s)
    async with grpc.aio.insecure_channel(reachable(settings.api.endpoint)) as channel:
        traces, kept = TraceServiceStub(channel), ScoreServiceStub(channel)
        metadata = [(name.lower(), value) for name, value in asker.headers.items()]
        ask = partial(_answer, metadata=metadata)
        request = GetTraceRequest(trace_id=trace_id)
        try:
            trace = await _until(lambda: ask(traces.GetTrace, request), deadline_s)
            took_s = time.monotonic() - started_s
            if trace is None:
                raise _lost(started_s)
            answer = await ask(kept.ListScores, ListScoresRequest(trace_id=trace_id))
        except grpc.aio.AioRpcError as error:
            untold = f"the control service on {settings.api.endpoint} does not tell of it"
            problem = f"the span was taken, but {untold}: {error.code().name}"
            raise warn(problem, "see api.endpoint and api.auth") from error
    took = f"trace {trace_id} was taken and, after {took_s:.1f} s, rebuilt"
    scores = sum(x.HasField("value") for x in answer.scores) if answer is not None else 0
    if not scored:
        return f"{took}; not scored: without content, so that no model was asked"
    if not scores:
        return f"{took}; not scored: no metric had anything to score"
    return await _sent_on(settings, f"{took} and scored", scores, deadline_s)


async def _sent_on(settings: Settings, took: str, scores: int, deadline_s: float) -> str:
    """Whether the scores leave; a tool may wait for the span, which it gets from elsewhere or not
    at all.
    """
    export = settings.export
    if await _until(lambda: _all_left(settings, export.otlp_exporters), deadline_s) is None:
        behind = f"{took} ({scores} scores), but the scores do not leave"
        raise fail(behind, "see the lines about the exporters, and the server's log")
    waiting = [name for name in export.sinks if not await _all_left(settings, [name])]
    to = ", ".join(x for x in export.exporters if x not in waiting) or "the store only"
    went = f"{took}; {scores} scores went to {to}"
    if waiting:
        fix = "send that tool the agents' spans too, if it does not get them"
        fix += "; after max_wait its scores are dropped"
        raise warn(f"{went}; {', '.join(waiting)} has not got the span and waits for it", fix)
    return went


def _deadline_s(settings: Settings, started_s: float) -> float:
    return started_s + settings.assemble.complete_after / 1e9 + _PATIENCE_S


def _lost(started_s: float) -> Problem:
    waited_s = time.monotonic() - started_s
    problem = f"the span was taken, but after {waited_s:.0f} s there is no trace of it"
    return fail(problem, "see the server's log, and `spanscore quarantine`")


async def _send(settings: Settings, body: bytes, known: Mapping[str, str]) -> None:
    http = settings.receive.http
    scheme = "http" if http.tls is None else "https"
    headers = {"Content-Type": "application/x-protobuf", **known}
    context = await asyncio.to_thread(client_context, http.tls)
    url = f"{scheme}://{reachable(http.endpoint)}{WIRE['traces'].path}"
    async with asyncio.timeout(doctor_machine.TIMEOUT_S), aiohttp.ClientSession() as session:
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
        how = {"has_tenants": tenancy.enabled}
        known = await asyncio.to_thread(open_authenticators, settings.authenticators, **how)
        tokens = known[auth.authenticator]
        headers, tenant = dict(tokens({}, ())), tokens.shown.tenant
    if tenancy.enabled and tenant is None:
        tenant = tenancy.default or _TENANT
        headers[tenancy.header] = tenant
    return _Caller(headers, tenant or "")


async def _answer(
    ask: Callable[..., Awaitable[T]], request: Any, metadata: Sequence[tuple[str, str]]
) -> T | None:
    try:
        return await ask(request, timeout=doctor_machine.TIMEOUT_S, metadata=metadata)
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


_CHECKS = (
    doctor_machine.check_disk,
    check_endpoints,
    check_state,
    check_rules,
    doctor_machine.check_backends,
    doctor_machine.check_models,
    doctor_machine.check_clocks,
    check_round_trip,
)


async def examined(args: argparse.Namespace) -> AsyncIterator[Finding]:
    """What is found, check by check."""
    try:
        settings = config.load(args.config)
    except ConfigError as error:
        for line in str(error).splitlines():
            fix = "mend it; docs/configuration.md has all keys"
            yield Finding("configuration", "FAIL", cause_of(ConfigError(line)), fix)
        return
    yield Finding("configuration", "ok", f"{args.config or 'the defaults'}: can be used")
    look = Look(settings, await state_of(settings), Probe(), not args.no_judge)
    for check in _CHECKS[: -1 if args.no_round_trip else None]:
        async for finding in check(look):
            yield finding
