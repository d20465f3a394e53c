"""From spans and log records to agent traces: reading and turning in one step, for whoever has whole traces."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from spanscore import dialects, turns
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace, Completeness

Received: TypeAlias = tuple[list[Span], list[LogRecord]]
"""The spans and log records that `dialects.unit_of` has read together: mostly those of one trace id."""


def rebuild(
    spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, completeness: Completeness = "complete"
) -> list[AgentTrace]:
    """The agent traces in the spans of one trace id and the log records with that trace id, oldest first.

    Order and repetition of spans and records change nothing, and no content raises.
    """
    return rebuild_part(spans, logs, completeness=completeness)[0]


def rebuild_part(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    completeness: Completeness = "complete",
    linked: bool = False,
    watch: turns.Watch | None = None,
) -> tuple[list[AgentTrace], turns.Ends | None]:
    """What `rebuild` gives, and what ties the trace to others: None for an ordinary one to which none is `linked`."""
    readings = [dialects.read(*part) for part in dialects.told_apart(spans, logs)]
    traces = [trace for reading in readings for trace in turns.build(reading, completeness=completeness, watch=watch)]
    is_one_trace = len(readings) == 1 and len({(x.trace_id, x.recorded) for x in readings[0].spans}) == 1
    return traces, turns.ends(readings[0], traces, linked=linked) if is_one_trace else None


def rebuild_together(
    parts: Iterable[Received], *, completeness: Completeness = "complete", watch: turns.Watch | None = None
) -> list[AgentTrace]:
    """The agent traces in several OTel traces that `turns.group` found to be of one turn, in its order."""
    return turns.build(*(dialects.read(*part) for part in parts), completeness=completeness, watch=watch)


def rebuild_all(
    spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, watch: turns.Watch | None = None
) -> list[AgentTrace]:
    """The agent traces in the spans and log records of any number of traces, ordered by their start.

    A turn that is spread over several traces is one agent trace. `watch` is told of each that is built.
    """
    received = _gathered(spans, logs)
    found: dict[str, list[AgentTrace]] = {}
    tied: dict[str, turns.Ends] = {}
    for unit, parts in received.items():
        found[unit], ends = rebuild_part(*parts, watch=watch)
        if ends is not None:
            tied[unit] = ends
    for unit in {x for ends in tied.values() for x in ends.links if x in received and x not in tied}:
        ends = rebuild_part(*received[unit], linked=True)[1]
        if ends is not None:
            tied[unit] = ends
    for together in turns.group(tied.values()):
        ids = [x.trace_id for x in together]
        if len(ids) > 1:
            found.update({x: [] for x in ids})
            found[ids[0]] = rebuild_together((received[x] for x in ids), watch=watch)
    return in_order(trace for traces in found.values() for trace in traces)


def in_order(traces: Iterable[AgentTrace]) -> list[AgentTrace]:
    """The traces by their start."""
    return sorted(traces, key=lambda x: (x.started_ns, x.trace_ids, x.opening_span_id))


def _gathered(spans: Iterable[Span], logs: Iterable[LogRecord]) -> dict[str, Received]:
    """What is read together, by its id; log records of no trace are left out."""
    received: defaultdict[str, Received] = defaultdict(lambda: ([], []))
    for span in spans:
        is_plain = not span.scope.name.startswith(dialects.UNIT_SCOPES)  # to ask for each takes longer
        received[span.trace_id if is_plain else _unit(span, of_log=False)][0].append(span)
    for log in logs:
        unit = _unit(log, of_log=True)
        if unit:
            received[unit][1].append(log)
    return received


def _unit(item: Span | LogRecord, *, of_log: bool) -> str:
    return dialects.unit_of(item.scope.name, item.trace_id, lambda: item.attributes, of_log=of_log)


def explain_all(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[tuple[AgentTrace, turns.Explanation]]:
    """What `rebuild_all` gives, each agent trace with where its facts came from."""
    built: dict[str, tuple[turns.Turn, Reading]] = {}

    def watch(trace: AgentTrace, turn: turns.Turn, reading: Reading) -> None:
        built[trace.id] = turn, reading

    traces = rebuild_all(spans, logs, watch=watch)
    return [(x, turns.explain(turn, dialects.again(reading))) for x in traces for turn, reading in (built[x.id],)]


def unread_all(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[dialects.Unread]:
    """The spans that no dialect reads, and the log records of no span that one reads."""
    logs = list(logs)
    gathered = [*_gathered(spans, logs).values(), ([], [x for x in logs if not _unit(x, of_log=True)])]
    parts = [part for received in gathered for part in dialects.told_apart(*received)]
    return dialects.unread([dialects.read(*part) for part in parts], [log for _, records in parts for log in records])
