"""Agent traces and sessions in files."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from spanscore import sources
from spanscore.cli.terminal import counted, say
from spanscore.config import Settings
from spanscore.evaluation import MAX_EARLIER_TURNS
from spanscore.model.trace import AgentTrace, Session, in_scope
from spanscore.offline.recordings import Recordings, none_found
from spanscore.offline.windows import load_stored, truncated_notice
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all, unread_traces
from spanscore.sources import Location
from spanscore.watches import ContentWatch, SpanAttributes

PATH_HELP = (
    "a file or folder of OTLP in protobuf (*.pb; logs in logs*.pb), OTLP JSON (also JSON Lines or"
    " Tempo's) or Jaeger JSON, or of these compressed by gzip or zstd"
)
PLACE_HELP = (
    f"{PATH_HELP}; or the URL of stored traces, such as"
    " jaeger://localhost:16686?service=shop&since=24h"
)

ItemT = TypeVar("ItemT")
Place: TypeAlias = Path | Location
"""What a command reads: a path, or a URL of stored traces."""


def agent_traces(paths: Sequence[Place], settings: Settings | None = None) -> list[AgentTrace]:
    """Every agent trace in `paths`, by its start; spans that had to be left out are named on
    standard error.

    Raises InputError when a file cannot be read, or none of them holds an agent trace.
    """
    telemetry = loaded(paths)
    traces = rebuilt(telemetry, paths, settings)
    print_unread(traces, telemetry)
    return traces


def rebuilt(
    telemetry: files.Telemetry, paths: Sequence[Place], settings: Settings | None = None
) -> list[AgentTrace]:
    """Every agent trace in what was loaded from `paths`; instrumentations without content are named
    on standard error.

    Raises InputError where there is none.
    """
    return [x for x, _ in explained(telemetry, paths, settings, _without)]


def _without(*args: Any, **how: Any) -> list[tuple[AgentTrace, None]]:
    return [(x, None) for x in rebuild_all(*args, **how)]


def explained(
    telemetry: files.Telemetry,
    paths: Sequence[Place],
    settings: Settings | None,
    rebuild: Callable[..., Sequence[tuple[AgentTrace, ItemT]]],
) -> list[tuple[AgentTrace, ItemT]]:
    """As `rebuilt`, each with where its facts came from, or what else `rebuild` gives with it."""
    settings = settings or Settings()
    watch = ContentWatch()
    noting = SpanAttributes(settings.evaluation.span_attributes, watch)
    found = rebuild(
        telemetry.spans,
        telemetry.logs,
        watch=noting,
        truncated=telemetry.truncated,
        stitch_off=settings.assemble.stitch_off,
    )
    noted = noting.added_to(x for x, _ in found)
    traces = list(in_scope(noted, settings.assemble.session_scope))
    if not traces:
        raise none_found(paths, len(telemetry.spans), len(telemetry.logs))
    for silent in watch.silent:  # with what makes them record content
        say(silent)
    return list(zip(traces, (x for _, x in found), strict=True))


def recordings(
    paths: Sequence[Place] | files.Telemetry, settings: Settings, **how: Any
) -> Recordings:
    """What is in `paths`, or was loaded of them, read by the settings; `how` as `Recordings`."""
    make: Any = Recordings.of if isinstance(paths, files.Telemetry) else Recordings
    found: Recordings = make(
        paths,
        settings.assemble.session_scope,
        attributes=settings.evaluation.span_attributes,
        stitch_off=settings.assemble.stitch_off,
        **how,
    )
    return found


def loaded(paths: Sequence[Place]) -> files.Telemetry:
    """The spans and log records in `paths`.

    Raises InputError when a file or a URL cannot be read.
    """
    telemetry = files.load([x for x in paths if isinstance(x, Path)])
    for location in paths:
        if isinstance(location, Location):
            load_stored(telemetry, location)
    for trace_id, why in telemetry.truncated.items():
        say(truncated_notice(trace_id, why))
    for refused in telemetry.refused:
        say(f"warning: left out {refused}")
    return telemetry


def print_requests() -> None:
    """Say on standard error what is asked of backends, and what is not."""
    logging.basicConfig(format="spanscore: %(message)s")
    logging.getLogger(sources.__name__).setLevel(logging.INFO)


def print_unread(traces: Sequence[AgentTrace], telemetry: files.Telemetry) -> None:
    """Say on standard error how many traces hold nothing that was read."""
    if count := unread_traces(telemetry.spans, telemetry.logs, traces):
        held = counted(count, "trace holds", "traces hold")
        say(f"{held} nothing that was read; `spanscore inspect --unread` lists them")


def sessions(traces: Sequence[AgentTrace]) -> list[Session]:
    """The sessions of `traces`, each in the order in which its first trace is there; traces without
    one left out.
    """
    members: defaultdict[str, list[AgentTrace]] = defaultdict(list)
    for trace in traces:
        if trace.session_key is not None:
            members[trace.session_key].append(trace)
    return [Session(found[0].session_id or key, tuple(found)) for key, found in members.items()]


def turns_before(traces: Sequence[AgentTrace]) -> dict[str, tuple[AgentTrace, ...]]:
    """By agent trace id, the turns of its session that are there before it; none for a trace
    without a session.
    """
    found = {}
    for session in sessions(traces):
        for place, trace in enumerate(session.traces):
            found[trace.id] = session.traces[max(place - MAX_EARLIER_TURNS, 0) : place]
    return found
