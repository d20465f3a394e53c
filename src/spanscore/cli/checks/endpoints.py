"""Checks of ports, refused requests and rules."""

import asyncio
import contextlib
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp
import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from spanscore.cli.checks import Finding, fail, ok, warn
from spanscore.config import Settings
from spanscore.evaluation.rules import DEFAULT, Rule
from spanscore.model.json import loads
from spanscore.otlp.signal import WIRE
from spanscore.receive.config import Grpc, Tls, split_endpoint
from spanscore.receive.server import ELSEWHERE
from spanscore.telemetry import declared, formats

_TIMEOUT_S = 3.0
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


async def listens(where: str) -> bool:
    """Whether anything takes connections at this `host:port`."""
    host, port = split_endpoint(where)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _state(url: str) -> Mapping[str, Any] | None:
    try:
        async with asyncio.timeout(_TIMEOUT_S), aiohttp.ClientSession() as session:
            answer = await session.get(url)
            state = loads(await answer.text(errors="replace"))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
    return state if isinstance(state, Mapping) else None


_ABOUT = "senders"
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)
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
    try:
        refused = _refused(await page_of_metrics(state))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return warn(
            _ABOUT, "its page of metrics does not answer", "ask again, or see the server's log"
        )
    lost = {reason: count for reason, count in refused.most_common() if reason in _FIXES}
    if not lost:
        return ok(_ABOUT, "no request was refused for good since the start")
    counts = ", ".join(f"{count} {reason}" for reason, count in lost.items())
    return warn(
        _ABOUT,
        f"requests were refused for good, which collectors drop: {counts}",
        _FIXES[next(iter(lost))],
    )


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


async def page_of_metrics(state: Mapping[str, Any]) -> str:
    """The metrics of the server whose health check gave `state`.

    Raises aiohttp.ClientError, OSError or TimeoutError.
    """
    url = f"http://{reachable(state['endpoint'])}/metrics"
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as answer:
        return await answer.text()


def _refused(page: str) -> Counter[str]:
    """How many requests were not taken, by reason."""
    line = re.compile(
        formats.name(declared.RECEIVER_REFUSED_REQUESTS) + r'\{.*?reason="(\w+)".*\} (\S+)'
    )
    found: Counter[str] = Counter()
    for reason, count in line.findall(page):
        found[reason] += int(float(count))
    return found


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
    try:
        page = await page_of_metrics(state)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
    line = re.compile(formats.name(declared.RULES_DECISIONS) + r"\{(.*)\} (\S+)")
    found: Counter[str] = Counter()
    for labels, count in line.findall(page):
        named = dict(_LABEL.findall(labels))
        if named.get("scope") == "trace":
            found[named.get("rule", "")] += int(float(count))
    return found


def _share(rule: Rule, usual: float) -> str:
    if not rule.measures:
        return "nothing is measured"
    return f"share {usual if rule.sampling is None else rule.sampling:g}"


def _of(taken: Counter[str] | None, name: str) -> str:
    return "" if taken is None else f", took {taken[name]:,}"
