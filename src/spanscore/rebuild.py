"""Agent traces from spans and log records."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeAlias

from spanscore import dialects, turns
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace, Completeness
from spanscore.turns.basis import stitch_keys

Received: TypeAlias = tuple[list[Span], list[LogRecord]]
"""The spans and log records that `dialects.unit_of` has read together: mostly those of one trace
id.
"""

_WORST_FIRST: tuple[Completeness, ...] = ("truncated", "idle", "partial", "complete")


@dataclass(frozen=True, slots=True)
class RebuiltTrace:
    """The agent traces of one OTel trace, and what the trace can be compared with others by."""

    traces: list[AgentTrace]

    ids_of_calls: tuple[str, ...] = ()
    """The ids of its model calls: another trace with one of these may report the same call."""

    reading: Reading | None = None
    """What was read; None where the spans are not those of one trace: no other trace has parts of
    its turns.
    """

    def hints(self) -> turns.DelegationHints | None:
        """The texts by which it and a trace of a calling or called agent are recognised; None where
        it has none.
        """
        return None if self.reading is None else turns.hints_of(self.reading, self.traces)

    def fragment(
        self, stitching: turns.Stitching, *, is_referred_to: bool = False
    ) -> turns.TraceFragment | None:
        """What ties the trace to others; None for an ordinary trace, to which no other refers."""
        if self.reading is None:
            return None
        return stitching.fragment_of(self.reading, self.traces, linked=is_referred_to)


def rebuild(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    completeness: Completeness = "complete",
) -> list[AgentTrace]:
    """The agent traces in the spans of one trace id and the log records with that trace id, oldest
    first.

    Order and repetition of spans and records change nothing, but for records of one moment, which
    count as they come. No content raises.
    """
    return rebuild_trace(spans, logs, completeness=completeness).traces


def rebuild_trace(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    completeness: Completeness = "complete",
    watch: turns.Watch | None = None,
    later: Collection[str] = (),
) -> RebuiltTrace:
    """What `rebuild` gives, with what the trace can be compared with others by.

    `watch` is called with each agent trace that is built. `later` has the ids of traces of which
    earlier turns were read before.
    """
    readings = [dialects.read(*unit) for unit in dialects.split_units(spans, logs)]
    traces: list[AgentTrace] = []
    for reading in readings:
        traces += turns.build(reading, completeness=completeness, watch=watch, later=later)
    traces = in_chains(traces)
    if len(readings) != 1 or not _is_one_trace(readings[0]):
        return RebuiltTrace(traces)
    return RebuiltTrace(traces, turns.ids_of_calls(readings[0]), readings[0])


def _is_one_trace(reading: Reading) -> bool:
    if not reading.spans:
        return False
    trace_id, recorded = reading.spans[0].trace_id, reading.spans[0].recorded
    for span in reading.spans:
        if span.trace_id != trace_id or span.recorded != recorded:
            return False
    return True


def rebuild_turn(
    received: Iterable[Received],
    *,
    completeness: Sequence[Completeness] = (),
    within: Mapping[str, str] = MappingProxyType({}),
    watch: turns.Watch | None = None,
    later: Collection[str] = (),
) -> list[AgentTrace]:
    """The agent traces in several OTel traces that `turns.Stitching` found to be of one turn, in
    its order.

    `completeness` is that of each, where they are not all complete; that of traces that only repeat
    others does not count. `within` is for `turns.build`.
    """
    readings = [dialects.read(*unit) for unit in dialects.merge_units(received)]
    return _build_turn(readings, within, completeness=completeness, watch=watch, later=later)


def _build_turn(
    readings: Sequence[Reading],
    within: Mapping[str, str],
    *,
    completeness: Sequence[Completeness] = (),
    watch: turns.Watch | None = None,
    later: Collection[str] = (),
) -> list[AgentTrace]:
    remaining = turns.without_repeats(readings)
    remaining_ids = {reading.spans[0].trace_id for reading in remaining if reading.spans}
    of_remaining = [
        known
        for known, reading in zip(completeness, readings, strict=False)
        if reading.spans and reading.spans[0].trace_id in remaining_ids
    ]
    worst: Completeness = min(of_remaining, key=_WORST_FIRST.index, default="complete")
    return in_chains(
        turns.build(*remaining, completeness=worst, within=within, watch=watch, later=later)
    )


def rebuild_all(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    watch: turns.Watch | None = None,
    truncated: Collection[str] = (),
    stitch_off: Collection[str] = (),
) -> list[AgentTrace]:
    """The agent traces in the spans and log records of any number of traces, ordered by their
    start.

    A turn that is spread over several traces is one agent trace. `watch` is called with each that
    is built. `truncated` has the ids of the traces that are known not to be complete. `stitch_off`
    names the reasons to join traces that are switched off, as `assemble.stitch` of the
    configuration does; ValueError where there is no such one.
    """
    return _rebuild_all(spans, logs, turns.Stitching(stitch_off), watch, truncated)[0]


def _rebuild_all(
    spans: Iterable[Span],
    logs: Iterable[LogRecord],
    stitching: turns.Stitching,
    watch: turns.Watch | None,
    truncated: Collection[str],
) -> tuple[list[AgentTrace], list[turns.Join]]:
    """What `rebuild_all` gives, and why traces were joined."""
    units = ReceivedUnits(by_unit(spans, logs), stitching, watch=watch, truncated=truncated)
    return join_units(units.rebuilt(), units, stitching)


@dataclass(frozen=True, slots=True)
class RebuiltUnit:
    """The agent traces of one unit by itself, and what it can be joined to others by."""

    traces: list[AgentTrace]

    ids_of_calls: tuple[str, ...] = ()
    """The ids of its model calls, as `RebuiltTrace` has them."""

    fragment: turns.TraceFragment | None = None
    """What ties it to others; None for an ordinary unit, to which no other refers."""

    hints: turns.DelegationHints | None = None
    """The texts by which a calling or called agent is recognised, as `RebuiltTrace` has them."""


class Units(Protocol):
    """Units that were rebuilt by themselves, of which some are now read together with others."""

    def referred(self, names: Sequence[str]) -> Mapping[str, turns.TraceFragment]:
        """The fragments of ordinary units to which others refer, by the units' ids, as far as these
        can have one.
        """
        ...

    def joined(self, groups: Sequence[Sequence[turns.TraceFragment]]) -> Sequence[list[AgentTrace]]:
        """The agent traces of each turn, of which these are the parts."""
        ...


def join_units(
    rebuilt: Mapping[str, RebuiltUnit], units: Units, stitching: turns.Stitching
) -> tuple[list[AgentTrace], list[turns.Join]]:
    """The agent traces of all units by their start, turns that are spread over several joined; and
    why these were.
    """
    found = {name: unit.traces for name, unit in rebuilt.items()}
    fragments = {name: unit.fragment for name, unit in rebuilt.items() if unit.fragment is not None}
    fragments.update(units.referred(_referred_to(rebuilt)))
    groups = [group for group in stitching.group(fragments.values()) if len(group) > 1]
    joins: list[turns.Join] = []
    for group, traces in zip(groups, units.joined(groups), strict=True):
        found.update({part.trace_id: [] for part in group})
        found[group[0].trace_id] = traces
        joins += [join for part in group for join in part.joins]
    ordered = in_chains(in_order(trace for each in found.values() for trace in each))
    continuations = turns.UnmatchedContinuations(ordered)
    return [continuations.marked(trace) for trace in ordered], joins


class ReceivedUnits:
    """Units whose spans and log records are in memory.

    Most are ordinary: what was read of all of them would take much memory, so those that others
    refer to are read once more.
    """

    def __init__(
        self,
        received: Mapping[str, Received],
        stitching: turns.Stitching,
        *,
        watch: turns.Watch | None = None,
        truncated: Collection[str] = (),
    ) -> None:
        """`received` has what belongs to each unit, by its id; the rest is as `rebuild_all` has
        it.
        """
        self._received = received
        self._stitching = stitching
        self._watch = watch
        self._truncated = truncated
        self._readings: dict[str, Reading] = {}

    def rebuilt(self) -> dict[str, RebuiltUnit]:
        """Each unit by itself."""
        return {name: self._rebuilt(name) for name in self._received}

    def referred(self, names: Sequence[str]) -> dict[str, turns.TraceFragment]:
        """See `Units`."""
        found = {name: self._rebuilt(name, is_referred_to=True).fragment for name in names}
        return {name: fragment for name, fragment in found.items() if fragment is not None}

    def joined(self, groups: Sequence[Sequence[turns.TraceFragment]]) -> list[list[AgentTrace]]:
        """See `Units`."""
        return [self._joined(group) for group in groups]

    def _rebuilt(self, name: str, *, is_referred_to: bool = False) -> RebuiltUnit:
        watch = None if is_referred_to else self._watch
        trace = rebuild_trace(
            *self._received[name], completeness=self._completeness(name), watch=watch
        )
        fragment = trace.fragment(self._stitching, is_referred_to=is_referred_to)
        if fragment is not None and trace.reading is not None:
            self._readings[name] = trace.reading
        hints = trace.hints() if self._stitching.uses("delegation") else None
        return RebuiltUnit(trace.traces, trace.ids_of_calls, fragment, hints)

    def _joined(self, group: Sequence[turns.TraceFragment]) -> list[AgentTrace]:
        ids = [part.trace_id for part in group]
        completeness = [self._completeness(trace_id) for trace_id in ids]
        within = turns.delegating_calls(group)
        of_group = [self._received[trace_id] for trace_id in ids]
        if all(spans for spans, _ in of_group) and all(
            trace_id in self._readings for trace_id in ids
        ):
            readings = [self._readings[trace_id] for trace_id in ids]
            return _build_turn(readings, within, completeness=completeness, watch=self._watch)
        # log records of no span, which are now compared with those of the others
        return rebuild_turn(of_group, completeness=completeness, within=within, watch=self._watch)

    def _completeness(self, name: str) -> Completeness:
        return "truncated" if name in self._truncated else "complete"


def _referred_to(rebuilt: Mapping[str, RebuiltUnit]) -> list[str]:
    """The ordinary units that others link to, whose model calls they repeat, or that a delegation
    may tie to them.
    """
    sought: set[str] = set()
    for unit in rebuilt.values():
        if unit.fragment is not None:
            sought.update(unit.fragment.seeks)
    delegating = _delegating({name: x.hints for name, x in rebuilt.items() if x.hints is not None})
    ordinary = {name: unit for name, unit in rebuilt.items() if unit.fragment is None}
    return [
        name
        for name, unit in ordinary.items()
        if name in delegating or _is_sought(name, unit, sought)
    ]


def _delegating(hints: Mapping[str, turns.DelegationHints]) -> set[str]:
    """The units that may have delegated a turn to each other."""
    asked = {of_unit.asked[0] for of_unit in hints.values() if of_unit.asked is not None}
    if not any(
        not asked.isdisjoint(call.questions) for of_unit in hints.values() for call in of_unit.calls
    ):
        return set()
    index = turns.DelegationIndex(sys.maxsize, sys.maxsize)
    for name, of_unit in hints.items():
        index.add(name, of_unit, 0)
    found: set[str] = set()
    for name, of_unit in hints.items():
        others = index.of(name, of_unit)
        found.update(others, (name,) if others else ())
    return found


def _is_sought(name: str, unit: RebuiltUnit, sought: Collection[str]) -> bool:
    if not sought:
        return False
    return stitch_keys.trace(name) in sought or any(
        stitch_keys.model_call(x) in sought for x in unit.ids_of_calls
    )


def in_order(traces: Iterable[AgentTrace]) -> list[AgentTrace]:
    """The traces by their start."""
    return sorted(
        traces, key=lambda trace: (trace.started_ns, trace.trace_ids, trace.opening_span_id)
    )


def in_chains(traces: Sequence[AgentTrace]) -> list[AgentTrace]:
    """The traces, in order of time, those without a session in that of the turn whose response they
    go on from: else that response's chain is one, by the id of its first response.

    A response id that several turns have ties nothing.
    """
    found = list(traces)
    if not any(call.previous_response_id for trace in found for call in trace.model_calls):
        return found
    before = _chained(found)
    answered = {x.response_id for place in before.values() for x in found[place].model_calls}
    for place in sorted({*before, *before.values()}):
        trace = found[place]
        if trace.session_id is None or trace.session_id in answered:  # an id that was given here
            first = next(x.response_id for x in trace.model_calls if x.response_id)
            session = found[before[place]].session_id if place in before else first
            found[place] = replace(trace, session_id=session, session_key=None)
    return found


def _chained(traces: Sequence[AgentTrace]) -> dict[int, int]:
    """For each trace that goes on from an earlier one's response, the places of both."""
    chained: dict[int, int] = {}
    places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, trace in enumerate(traces):
        own = {x.response_id for x in trace.model_calls if x.response_id}
        ids = {x.previous_response_id for x in trace.model_calls if x.previous_response_id} - own
        earlier = [places[trace.tenant, x] for x in sorted(ids)]
        tied = {x[0] for x in earlier if len(x) == 1}
        if len(tied) == 1:
            chained[place] = tied.pop()
        for response_id in own:
            places[trace.tenant, response_id].append(place)
    return chained


def by_unit(spans: Iterable[Span], logs: Iterable[LogRecord]) -> dict[str, Received]:
    """What is read together, by its id; log records of no trace are left out."""
    received: defaultdict[str, Received] = defaultdict(lambda: ([], []))
    scopes = dialects.unit_scopes()
    scope, is_plain = None, True
    for span in spans:
        if span.scope is not scope:  # that of the span before it, mostly
            scope, is_plain = span.scope, not span.scope.name.startswith(scopes)
        received[span.trace_id if is_plain else unit_of(span, of_log=False)][0].append(span)
    for log in logs:
        unit = unit_of(log, of_log=True)
        if unit:
            received[unit][1].append(log)
    return received


def unit_of(item: Span | LogRecord, *, of_log: bool) -> str:
    """By which id a span or log record is read together with others: mostly its trace's; "" where
    by none.
    """
    return dialects.unit_of(item.scope.name, item.trace_id, lambda: item.attributes, of_log=of_log)


def explain_all(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    watch: turns.Watch | None = None,
    truncated: Collection[str] = (),
    stitch_off: Collection[str] = (),
) -> list[tuple[AgentTrace, turns.Explanation]]:
    """What `rebuild_all` gives, each agent trace with where its facts came from, and why its traces
    were joined.
    """
    built: dict[str, tuple[turns.TurnSteps, Reading]] = {}

    def note(trace: AgentTrace, turn: turns.TurnSteps, reading: Reading) -> None:
        built[trace.id] = turn, reading
        if watch is not None:
            watch(trace, turn, reading)

    explained: list[tuple[AgentTrace, turns.Explanation]] = []
    traces, joins = _rebuild_all(spans, logs, turns.Stitching(stitch_off), note, truncated)
    joined = _joins_by_trace(traces, joins)
    for trace in traces:
        turn, reading = built[trace.id]
        explanation = turns.explain(turn, dialects.rereader_of(reading), reading)
        explained.append((trace, replace(explanation, joins=joined[trace.id])))
    return explained


def _joins_by_trace(
    traces: Sequence[AgentTrace], joins: Sequence[turns.Join]
) -> dict[str, tuple[turns.Join, ...]]:
    """The joins of the traces of each agent trace, by its id.

    What was joined may be several turns: then a join between two of these is none of either. An end
    that no agent trace names is of log records, which became part of the trace that they are about.
    """
    by_end: defaultdict[str, list[turns.Join]] = defaultdict(list)
    for join in joins:
        by_end[join.trace_id].append(join)
        by_end[join.to].append(join)
    named = {trace_id for trace in traces for trace_id in trace.trace_ids}
    found: dict[str, tuple[turns.Join, ...]] = {}
    for trace in traces:
        near = dict.fromkeys(join for trace_id in trace.trace_ids for join in by_end[trace_id])
        others = named.difference(trace.trace_ids) if near else frozenset()
        found[trace.id] = tuple(x for x in near if others.isdisjoint((x.trace_id, x.to)))
    return found


def unread_traces(
    spans: Iterable[Span], logs: Iterable[LogRecord], traces: Iterable[AgentTrace]
) -> int:
    """How many traces contain spans, but none that a dialect reads; `traces` are the agent traces
    in them.
    """
    rebuilt: set[str] = set()
    for trace in traces:
        rebuilt.update(trace.trace_ids)
    others = [
        each for unit, each in by_unit(spans, logs).items() if unit not in rebuilt and each[0]
    ]
    return sum(not is_read(each) for each in others)


def is_read(received: Received) -> bool:
    """Whether a dialect reads one of these spans."""
    readings = (dialects.read(*unit) for unit in dialects.split_units(*received))
    return any(step.dialect for reading in readings for step in reading.steps)


def unread_all(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[dialects.Unread]:
    """The spans that no dialect reads, and the log records of no span that one reads."""
    logs = list(logs)
    of_no_unit: Received = ([], [log for log in logs if not unit_of(log, of_log=True)])
    units: list[Received] = []
    for received in (*by_unit(spans, logs).values(), of_no_unit):
        units += dialects.split_units(*received)
    readings = [dialects.read(*unit) for unit in units]
    return dialects.unread(readings, [log for _, records in units for log in records])
