"""Are the clocks of those who speak HTTP close to ours: spans, budgets and tokens are told by
time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from spanscore.cli.checks.finding import Finding, fail, ok, warn
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.export.config import HttpConfig
from spanscore.export.connection_config import Tls
from spanscore.export.sink_config import SinkSettings
from spanscore.export.tls import http_context

_TIMEOUT_S = 5.0
_CLOSE_S, _FAR_S = 3.0, 60.0


async def check(settings: Settings, *, judge: bool) -> AsyncIterator[Finding]:
    """One line for each; `judge` says whether the judge's provider may be asked too."""
    places = dict(_places(settings, judge=judge))
    if not places:
        yield ok(
            "clocks",
            "nothing to compare with: neither a backend nor a judge is spoken to by HTTP at a known"
            " address",
        )
    for where, (url, tls) in places.items():
        yield await _compared(where, url, tls)


def _places(settings: Settings, *, judge: bool) -> Iterator[tuple[str, tuple[str, Tls]]]:
    for name, config in settings.export.exporters.items():
        if isinstance(config, HttpConfig | SinkSettings):
            yield name, (config.endpoint, config.tls)
    if judge and settings.judge.api_base and settings.judge.models:
        yield "judge", (settings.judge.api_base, Tls())


async def _compared(where: str, url: str, tls: Tls) -> Finding:
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        context = http_context(tls).get()
        before_s = time.time()
        async with (
            asyncio.timeout(_TIMEOUT_S),
            aiohttp.ClientSession() as session,
            session.get(url, ssl=context, allow_redirects=False) as answer,
        ):
            date = answer.headers.get("Date", "")
        offset_s = _offset_s(date, before_s, time.time())
    except (aiohttp.ClientError, SpanscoreError, OSError, TimeoutError, ValueError):
        return warn(
            "clocks", f"{where} at {host} tells no time", "see that it is up, then ask again"
        )
    if abs(offset_s) <= _CLOSE_S:
        return ok("clocks", f"{where} at {host} has our time")
    difference = (
        f"{where} at {host} is {abs(offset_s):.0f} s"
        f" {'ahead of' if offset_s > 0 else 'behind'} this"
        " machine"
    )
    fix = "have both machines keep their clocks by NTP"
    return (
        fail("clocks", difference, fix)
        if abs(offset_s) > _FAR_S
        else warn("clocks", difference, fix)
    )


def _offset_s(date: str, before_s: float, after_s: float) -> float:
    """How far a Date header, which has whole seconds, lies outside the time in which it was made.

    >>> _offset_s("Thu, 01 Jan 1970 00:00:10 GMT", 10.2, 10.9)
    0.0
    """
    at_s = parsedate_to_datetime(date).timestamp()
    if at_s > after_s:
        return at_s - after_s
    return min(0.0, at_s + 1 - before_s)
