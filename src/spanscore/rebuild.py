"""From spans and log records to agent traces: reading and turning in one step, for whoever has whole traces."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from spanscore import dialects, turns
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace, Completeness

Received: TypeAlias = tuple[list[Span], list[LogRecord]]
"""The spans and log records that `dialects.unit_of` has read together: mostly those of one trace id."""

_WORST: tuple[Completeness, ...] = ("truncated", "idle", "complete")


class Part(NamedTuple):
    """What one trace by itself tells: its agent traces, and what ties it to others, None for an ordinary one.

    `ids_of_calls` are those by which another trace would tell of the same model calls. `reading` is what was read of
    the trace, where others may have to do with it.
    """

    traces: list[AgentTrace]
    ends: turns.TraceFragment | None = None
    ids_of_calls: tuple[str, ...] = ()
    reading: Reading | None = None


class IsSought(Protocol):
    """Says whether other traces may have to do with one, by the ids of its model calls and by what it says.

    The latter is told when it is asked for.
    """

    def __call__(self, ids_of_calls: Sequence[str], hints_of: Callable[[], turns.DelegationHints | None], /) -> bool:
        """Whether others may have to do with that trace."""


def rebuild(
    spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, completeness: Completeness = "complete"
) -> list[AgentTrace]:
    """The agent traces in the spans of one trace id and the log records with that trace id, oldest first.

    Order and repetition of spans and records change nothing, but for records of one moment, which count as they come.
    No content raises.
    """
    return rebuild_part(spans, logs, completeness=completeness).traces


def rebuild_part(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    completeness: Completeness = "complete",
    is_sought: IsSought = lambda _ids, _talk: False,
    watch: turns.Watch | None = None,
) -> Part:
    """What `rebuild` gives, and what ties the trace to others.

    `is_sought` says whether another trace looks for this one, links to it or says what it says: then it is told of
    though it is an ordinary one.
    """
    readings = [dialects.read(*part) for part in dialects.split_units(spans, logs)]
    traces = [trace for reading in readings for trace in turns.build(reading, completeness=completeness, watch=watch)]
    if len(readings) != 1 or not _is_one_trace(readings[0]):
        return Part(traces)
    reading = readings[0]
    ids = turns.ids_of_calls(reading)
    ends = turns.fragment_of(reading, traces, linked=is_sought(ids, lambda: turns.hints_of(reading, traces)))
    return Part(traces, ends, ids, None if ends is None else reading)


def _is_one_trace(reading: Reading) -> bool:
    if not reading.spans:
        return False
    trace_id, recorded = reading.spans[0].trace_id, reading.spans[0].recorded
    for span in reading.spans:  # noqa: SIM110 # asked of every trace: a generator would take twice as long
        if span.trace_id != trace_id or span.recorded != recorded:
            return False
    return True


def rebuild_together(
    parts: Iterable[Received],
    *,
    completeness: Sequence[Completeness] = (),
    within: Mapping[str, str] = MappingProxyType({}),
    watch: turns.Watch | None = None,
) -> list[AgentTrace]:
    """The agent traces in several OTel traces that `turns.group` found to be of one turn, in its order.

    `completeness` is that of each, where they are not all complete; what only repeats others has no part in the turn's.
    `within` is for `turns.build`.
    """
    readings = [dialects.read(*part) for part in dialects.merge_units(parts)]
    return _together(readings, within, completeness=completeness, watch=watch)


def _together(
    readings: Sequence[Reading],
    within: Mapping[str, str],
    *,
    completeness: Sequence[Completeness] = (),
    watch: turns.Watch | None = None,
) -> list[AgentTrace]:
    left = turns.without_repeats(readings)
    kept = {x.spans[0].trace_id for x in left if x.spans}
    told = (x for x, y in zip(completeness, readings, strict=False) if y.spans and y.spans[0].trace_id in kept)
    return turns.build(*left, completeness=min(told, key=_WORST.index, default="complete"), within=within, watch=watch)


def rebuild_all(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    watch: turns.Watch | None = None,
    truncated: Collection[str] = (),
) -> list[AgentTrace]:
    """The agent traces in the spans and log records of any number of traces, ordered by their start.

    A turn that is spread over several traces is one agent trace. `watch` is told of each that is built. `truncated`
    has the ids of the traces that are known not to be all there.
    """
    received = _gathered(spans, logs)
    known: dict[str, Completeness] = {unit: "truncated" if unit in truncated else "complete" for unit in received}
    parts = {unit: rebuild_part(*received[unit], completeness=known[unit], watch=watch) for unit in received}
    found = {unit: part.traces for unit, part in parts.items()}
    for unit in _sought(parts):
        parts[unit] = rebuild_part(*received[unit], completeness=known[unit], is_sought=lambda _ids, _talk: True)
    readings = {unit: part.reading for unit, part in parts.items() if part.reading is not None}
    for together in turns.group(part.ends for part in parts.values() if part.ends is not None):
        ids = [x.trace_id for x in together]
        if len(ids) > 1:
            found.update({x: [] for x in ids})
            if all(received[x][0] for x in ids):
                found[ids[0]] = _together(
                    [readings[x] for x in ids],
                    turns.asked_within(together),
                    completeness=[known[x] for x in ids],
                    watch=watch,
                )
            else:  # log records of no span, which are now held against those of the others
                found[ids[0]] = rebuild_together(
                    (received[x] for x in ids),
                    completeness=[known[x] for x in ids],
                    within=turns.asked_within(together),
                    watch=watch,
                )
    traces = in_order(trace for traces in found.values() for trace in traces)
    unjoined = turns.UnmatchedContinuations(traces)
    return [unjoined.marked(x) for x in traces]


def _sought(parts: Mapping[str, Part]) -> list[str]:
    """The ordinary traces that others link to, whose model calls they look for, or that say what others say."""
    keys = {key for part in parts.values() if part.ends is not None for key in part.ends.seeks}
    talking = turns.may_delegate({unit: part.traces for unit, part in parts.items()}) if len(parts) > 1 else set()
    return [
        unit
        for unit, part in parts.items()
        if part.ends is None and (unit in talking or (keys and _is_sought(unit, part, keys)))
    ]


def _is_sought(unit: str, part: Part, keys: Collection[str]) -> bool:
    return turns.keys.trace(unit) in keys or any(turns.keys.model_call(x) in keys for x in part.ids_of_calls)


def in_order(traces: Iterable[AgentTrace]) -> list[AgentTrace]:
    """The traces by their start."""
    return sorted(traces, key=lambda x: (x.started_ns, x.trace_ids, x.opening_span_id))


def _gathered(spans: Iterable[Span], logs: Iterable[LogRecord]) -> dict[str, Received]:
    """What is read together, by its id; log records of no trace are left out."""
    received: defaultdict[str, Received] = defaultdict(lambda: ([], []))
    scope, is_plain = None, True
    for span in spans:
        if span.scope is not scope:  # that of the span before it, mostly
            scope, is_plain = span.scope, not span.scope.name.startswith(dialects.UNIT_SCOPES)
        received[span.trace_id if is_plain else unit_of(span, of_log=False)][0].append(span)
    for log in logs:
        unit = unit_of(log, of_log=True)
        if unit:
            received[unit][1].append(log)
    return received


def unit_of(item: Span | LogRecord, *, of_log: bool) -> str:
    """By which id a span or log record is read together with others: mostly its trace's; "" where by none."""
    return dialects.unit_of(item.scope.name, item.trace_id, lambda: item.attributes, of_log=of_log)


def explain_all(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    watch: turns.Watch | None = None,
    truncated: Collection[str] = (),
) -> list[tuple[AgentTrace, turns.Explanation]]:
    """What `rebuild_all` gives, each agent trace with where its facts came from."""
    built: dict[str, tuple[turns.TurnSteps, Reading]] = {}

    def note(trace: AgentTrace, turn: turns.TurnSteps, reading: Reading) -> None:
        built[trace.id] = turn, reading
        if watch is not None:
            watch(trace, turn, reading)

    traces = rebuild_all(spans, logs, watch=note, truncated=truncated)
    return [
        (x, turns.explain(turn, dialects.again(reading), reading)) for x in traces for turn, reading in (built[x.id],)
    ]


def unread_traces(spans: Iterable[Span], logs: Iterable[LogRecord], traces: Iterable[AgentTrace]) -> int:
    """How many traces hold spans and nothing that a dialect reads; `traces` are the agent traces in them."""
    read = {x for trace in traces for x in trace.trace_ids}
    left = {unit: part for unit, part in _gathered(spans, logs).items() if unit not in read and part[0]}
    steps = ((x for part in dialects.split_units(*both) for x in dialects.read(*part).steps) for both in left.values())
    return sum(not any(x.dialect for x in each) for each in steps)


def unread_all(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[dialects.Unread]:
    """The spans that no dialect reads, and the log records of no span that one reads."""
    logs = list(logs)
    gathered = [*_gathered(spans, logs).values(), ([], [x for x in logs if not unit_of(x, of_log=True)])]
    parts = [part for received in gathered for part in dialects.split_units(*received)]
    return dialects.unread([dialects.read(*part) for part in parts], [log for _, records in parts for log in records])
