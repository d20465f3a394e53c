"""Has the running server refused requests for good: collectors drop these, and say so only in their
own log.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from spanscore.cli.checks.endpoints import reachable
from spanscore.cli.checks.finding import Finding, ok, warn
from spanscore.telemetry import declared, prometheus

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


async def check(state: Mapping[str, Any]) -> Finding:
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
        prometheus.name(declared.RECEIVER_REFUSED_REQUESTS) + r'\{.*?reason="(\w+)".*\} (\S+)'
    )
    found: Counter[str] = Counter()
    for reason, count in line.findall(page):
        found[reason] += int(float(count))
    return found
