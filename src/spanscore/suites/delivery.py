"""Delivery of a suite's scores."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from spanscore.errors import PermanentError
from spanscore.evaluation.outcomes import tallied
from spanscore.export import events, open_exporters, open_sinks, spans
from spanscore.export.config import Authenticator, Config, JsonFileConfig
from spanscore.export.port import Exporter, Sink, UndeliveredError, by_what_they_replace
from spanscore.export.sender import without_spans
from spanscore.model.score import Evaluation
from spanscore.otlp.signal import Signal

_T = TypeVar("_T")
_BATCH = 512
_TRIES = 4
_MAX_WAIT_S = 10.0


def to_file(path: Path) -> Config:
    """The export configuration that writes OTLP JSON to a file, one request a line."""
    return Config(exporters={"otlp_json_file": JsonFileConfig(path=path)}, spans="all")


async def send(
    config: Config,
    evaluations: Sequence[Evaluation],
    started_ns: int,
    ended_ns: int,
    authenticators: Mapping[str, Authenticator] | None = None,
) -> list[str]:
    """Send to all exporters of `config`; gives what could not be delivered, in a line each.

    The times, in Unix ns, are those between which the histogram counts; `authenticators` are those
    that an exporter's `auth` may name. Raises ConfigError where one cannot be opened.
    """
    evaluations = tallied(evaluations, (), {})
    exporters, sinks = open_exporters(config, authenticators), open_sinks(config)
    requests = _requests(config, evaluations, started_ns, ended_ns) if exporters else []
    spanless, others = without_spans(config), [x for x in requests if x[0] != "traces"]
    filed = by_what_they_replace([x for x in evaluations if x.status != "skipped"]) if sinks else []
    try:
        own = {name: others if name in spanless else requests for name in exporters}
        found = await asyncio.gather(
            *(_send(name, exporter, own[name]) for name, exporter in exporters.items()),
            *(_file(name, sink, filed) for name, sink in sinks.items()),
        )
    finally:
        for exporter in exporters.values():
            await exporter.close()
        for sink in sinks.values():
            await sink.close()
    return [problem for problems in found for problem in problems]


def _requests(
    config: Config, evaluations: Sequence[Evaluation], started_ns: int, ended_ns: int
) -> list[tuple[Signal, bytes]]:
    found: list[tuple[Signal, bytes]] = []
    for at in range(0, len(evaluations), _BATCH):
        some = evaluations[at : at + _BATCH]
        if config.emit.spans:
            body = spans.request(some, config.placement, config.max_text_length, config.spans)
            found.append(("traces", body))
        if config.emit.events:
            found.append(("logs", events.request(some, config.max_text_length)))
    if config.emit.metrics:
        found.append(("metrics", events.histogram_request(evaluations, started_ns, ended_ns)))
    return [(signal, body) for signal, body in found if body]


async def _send(
    name: str, exporter: Exporter, requests: Sequence[tuple[Signal, bytes]]
) -> list[str]:
    problems: dict[str, None] = {}
    for signal, body in requests:
        try:
            not_taken = await _tried(partial(exporter.send, signal, body))
            what = "" if not_taken is None else f"taken in part: {not_taken}"
        except UndeliveredError as error:
            what = f"not delivered: {error}"
        except PermanentError as error:
            what = f"not taken: {error}"
        if what:
            problems[f"{name}: {signal} {what}"] = None
    return list(problems)


async def _file(name: str, sink: Sink, evaluations: Sequence[Evaluation]) -> list[str]:
    """File with a tool of an API of its own, which must have the traces already."""
    missing = 0
    problems: dict[str, None] = {}
    for at in range(0, len(evaluations), _BATCH):
        batch = evaluations[at : at + _BATCH]
        try:
            missing += len(await _tried(partial(sink.file, batch, final=True)))
        except (UndeliveredError, PermanentError) as error:
            problems[f"{name}: scores not filed: {error}"] = None
    if missing:
        problems[
            f"{name}: {missing} of {len(evaluations)} scores not filed, since it has not got their"
            " traces"
        ] = None
    return list(problems)


async def _tried(send: Callable[[], Awaitable[_T]]) -> _T:
    """What `send` gives, a few times. Raises what it raised last."""
    for _ in range(_TRIES - 1):
        try:
            return await send()
        except UndeliveredError as error:
            await asyncio.sleep(min(error.retry_after_s, _MAX_WAIT_S))
    return await send()
