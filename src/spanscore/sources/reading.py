"""Stored traces as a stream, the oldest first: what a source finds, filtered, fetched in order, in
bounded memory.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Final

from spanscore.errors import InputError
from spanscore.sources.port import Found, Source, Stored
from spanscore.sources.query import Query

_log = logging.getLogger(__name__)

MAX_TRACES: Final = 1_000_000
"""Traces whose ids are in memory at once; a query that finds more is refused."""

_AT_ONCE: Final = 4
"""Traces that are fetched side by side."""


async def read(source: Source, query: Query, where: str) -> AsyncIterator[Stored]:
    """The traces of `source` that `query` accepts, by their start; with a limit the newest of them.

    What is fetched is held against all of the query, whatever the source did itself. `where` names
    it in messages. Raises InputError where there are too many traces, and what the source raises.
    """
    _log_filters(source, query, where)
    chosen = await _chosen(source, query, where)
    chosen.sort(key=lambda x: (x.start_ns, x.trace_id))
    is_exact = _is_exact(source, query)
    async for stored in _fetched(source, iter(chosen)):
        # What is missing of a truncated trace may be what the search found it by.
        if query.accepts(stored.spans, stored.logs) or (is_exact and stored.truncated):
            yield stored


async def _chosen(source: Source, query: Query, where: str) -> list[Found]:
    """The traces that are wanted, as many as the limit says; where the source cannot say, they are
    looked at.
    """
    chosen: list[Found] = []
    if query.limit is None or _is_exact(source, query):
        async for found in _find(source, query):
            chosen.append(found)
            _require_few(chosen, where)
            if query.limit is not None and len(chosen) >= query.limit:
                break
        return chosen
    waiting: deque[Found] = deque()
    async for found in _find(source, query):
        waiting.append(found)
        if len(waiting) >= _AT_ONCE:
            chosen += await _accepted(source, query, waiting)
            waiting.clear()
        if len(chosen) >= query.limit:
            break
    if len(chosen) < query.limit:
        chosen += await _accepted(source, query, waiting)
    return chosen[: query.limit]


def _is_exact(source: Source, query: Query) -> bool:
    return not query.trace_ids and source.is_exact(query)


async def _find(source: Source, query: Query) -> AsyncIterator[Found]:
    """What a search gives; ids that are named are not searched for."""
    if query.trace_ids:
        for trace_id in query.trace_ids:
            yield Found(trace_id)
        return
    async for found in source.find(query):
        yield found


async def _accepted(source: Source, query: Query, candidates: deque[Found]) -> list[Found]:
    return [
        Found(x.trace_id, min(span.start_ns for span in x.spans))
        async for x in _fetched(source, iter(candidates))
        if query.accepts(x.spans)
    ]


async def _fetched(source: Source, wanted: Iterator[Found]) -> AsyncIterator[Stored]:
    """The traces in the order of `wanted`, some of them fetched while the ones before are worked
    on.
    """
    under_way: deque[asyncio.Task[Stored | None]] = deque()
    try:
        while True:
            while len(under_way) < _AT_ONCE and (found := next(wanted, None)) is not None:
                under_way.append(asyncio.ensure_future(source.fetch(found)))
            if not under_way:
                return
            if (stored := await under_way[0]) is not None:
                yield stored
            under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _require_few(chosen: list[Found], where: str) -> None:
    if len(chosen) > MAX_TRACES:
        raise InputError(
            f"{where}: more than {MAX_TRACES:,} traces; give a limit, or a shorter time"
        )


def _log_filters(source: Source, query: Query, where: str) -> None:
    pushed = {"trace_id"} if query.trace_ids else source.pushed(query)
    by_backend = ", ".join(x for x in query.conditions if x in pushed) or "nothing"
    here = ", ".join(x for x in query.conditions if x not in pushed) or "nothing"
    _log.info("%s: filtered by the backend: %s; filtered here: %s", where, by_backend, here)
