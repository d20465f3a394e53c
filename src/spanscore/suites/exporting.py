"""The scores of a run on their way out: the same evaluation spans, events and histogram that a server sends."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from spanscore.errors import PermanentError
from spanscore.export import events, histogram, spans
from spanscore.export.config import Config, JsonFileConfig
from spanscore.export.headers_setter import Authenticator
from spanscore.export.opening import open_exporters
from spanscore.export.port import Exporter, UndeliveredError
from spanscore.model.score import Evaluation
from spanscore.otlp.signal import Signal

_BATCH = 512
_TRIES = 4
_MAX_WAIT_S = 10.0


def to_file(path: Path) -> Config:
    """The export configuration that writes OTLP JSON to a file, one request a line."""
    return Config(exporters={"otlp_json_file": JsonFileConfig(path=path)})


async def send(
    config: Config,
    evaluations: Sequence[Evaluation],
    started_ns: int,
    ended_ns: int,
    authenticators: Mapping[str, Authenticator] | None = None,
) -> list[str]:
    """Send to all exporters of `config` that speak OTLP; gives what could not be delivered, in a line each.

    The times, in Unix ns, are those between which the histogram counts; `authenticators` are those that an exporter's
    `auth` may name. Raises ConfigError where one cannot be opened.
    """
    exporters = open_exporters(config, authenticators)
    requests = _requests(config, evaluations, started_ns, ended_ns)
    try:
        found = await asyncio.gather(*(_send(name, exporter, requests) for name, exporter in exporters.items()))
    finally:
        for exporter in exporters.values():
            await exporter.close()
    return [problem for problems in found for problem in problems]


def _requests(
    config: Config, evaluations: Sequence[Evaluation], started_ns: int, ended_ns: int
) -> list[tuple[Signal, bytes]]:
    found: list[tuple[Signal, bytes]] = []
    for at in range(0, len(evaluations), _BATCH):
        some = evaluations[at : at + _BATCH]
        if config.emit.spans:
            found.append(("traces", spans.request(some, config.placement, config.max_text_length)))
        if config.emit.events:
            found.append(("logs", events.request(some, config.max_text_length)))
    if config.emit.metrics:
        found.append(("metrics", histogram.request(evaluations, started_ns, ended_ns)))
    return [(signal, body) for signal, body in found if body]


async def _send(name: str, exporter: Exporter, requests: Sequence[tuple[Signal, bytes]]) -> list[str]:
    problems: dict[str, None] = {}
    for signal, body in requests:
        for left in reversed(range(_TRIES)):
            try:
                not_taken = await exporter.send(signal, body)
            except UndeliveredError as error:
                if not left:
                    problems[f"{name}: {signal} not delivered: {error}"] = None
                else:
                    await asyncio.sleep(min(error.retry_after_s, _MAX_WAIT_S))
            except PermanentError as error:
                problems[f"{name}: {signal} not taken: {error}"] = None
                break
            else:
                if not_taken is not None:
                    problems[f"{name}: {signal} taken in part: {not_taken}"] = None
                break
    return list(problems)
