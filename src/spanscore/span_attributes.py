"""Span attributes that rules read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from spanscore import turns
from spanscore.evaluation.rules import MAX_TEXT, STATUS
from spanscore.model.span import STATUS_ERROR, STATUS_OK, Scalar, Span, Value
from spanscore.model.step import Reading
from spanscore.model.trace import MAX_TAGS, TAGS, AgentTrace, shortened

MAX_VALUES = 16
"""Values of one attribute that are kept of a turn; of more, the first ones by the spans' start. Of
one that has tags `MAX_TAGS` are.
"""

_TAGS = frozenset(TAGS)
_STATUSES = {STATUS_OK: "OK", STATUS_ERROR: "ERROR"}
_MAX_DEPTH = 100

_Values = dict[str, dict[Scalar, None]]
"""By name, the values in the order in which they were found, each once."""


class SpanAttributes:
    """A `turns.Watch` that notes what spans of each turn have under some names; `added_to` gives it
    to the traces.

    To a turn belong the spans of its steps with what lies below these, the spans around it, and
    those that are near no step at all. For the traces of one call of `rebuild`.
    """

    def __init__(self, names: Collection[str], beside: turns.Watch | None = None) -> None:
        """`beside` is called with each trace too."""
        self._names = tuple(sorted(set(names) - {STATUS}))
        self._with_status = STATUS in names
        self._beside = beside
        self._found: dict[str, dict[str, tuple[Scalar, ...]]] = {}
        self._reading: Reading | None = None
        self._by_step: dict[str, _Values] = {}

    def __call__(self, trace: AgentTrace, turn: turns.TurnSteps, reading: Reading) -> None:
        """Note what the spans of a turn have."""
        if self._beside is not None:
            self._beside(trace, turn, reading)
        if not self._names and not self._with_status:
            return
        if self._reading is not reading:
            self._reading, self._by_step = reading, self._sorted(reading)
        found: _Values = defaultdict(dict)
        if self._by_step:
            own = (self._by_step.get(step.span.span_id) for step in turn.steps)
            for values in (self._by_step.get(""), *own):
                _add(found, values or {})
            for span in _above(trace.target.span_id, turn):
                _add(found, self._of(span))
        self._found[trace.id] = {
            name: tuple(values)[: _max_values(name)] for name, values in found.items()
        }

    def added_to(self, traces: Iterable[AgentTrace]) -> list[AgentTrace]:
        """The traces, each with what was noted of it."""
        given = [
            replace(x, attributes=noted) if (noted := self._found.get(x.id)) else x for x in traces
        ]
        self._found.clear()
        self._reading = None
        return given

    def _sorted(self, reading: Reading) -> dict[str, _Values]:
        """What spans have, by the id of the nearest step above or at each; "" for those that are
        near none.
        """
        having = [(span.span_id, values) for span in reading.spans if (values := self._of(span))]
        if not having:
            return {}
        steps = {x.span.span_id for x in reading.steps}
        parents = {x.span_id: x.parent_span_id for x in reading.spans}
        found: dict[str, _Values] = {}
        for span_id, values in having:
            _add(found.setdefault(_nearest(span_id, steps, parents), defaultdict(dict)), values)
        return found

    def _of(self, span: Span) -> _Values:
        found: _Values = {}
        attributes = span.attributes
        if not attributes.keys().isdisjoint(self._names):
            for name in self._names:
                if name in attributes:
                    found[name] = dict.fromkeys(_scalars(attributes[name], name))
        if self._with_status and (status := _STATUSES.get(span.status_code)):
            found[STATUS] = {status: None}
        return found


def _max_values(name: str) -> int:
    return MAX_TAGS if name in _TAGS else MAX_VALUES


def _scalars(value: Value, name: str) -> Iterator[Scalar]:
    for item in value[: _max_values(name)] if isinstance(value, list) else [value]:
        if isinstance(item, str) and name in _TAGS:
            yield from shortened(item, name, MAX_TEXT)
        elif isinstance(item, str):
            yield item[:MAX_TEXT]
        elif isinstance(item, bool | int) or (isinstance(item, float) and math.isfinite(item)):
            yield item


def _add(found: _Values, values: _Values) -> None:
    for name, items in values.items():
        known = found[name]
        if len(known) < _max_values(name):
            known.update(items)


def _nearest(span_id: str, steps: Collection[str], parents: dict[str, str]) -> str:
    for _ in range(_MAX_DEPTH):
        if span_id in steps or not span_id:
            return span_id
        span_id = parents.get(span_id, "")
    return ""


def _above(span_id: str, turn: turns.TurnSteps) -> Iterator[Span]:
    """The spans around a turn, from its target up."""
    span = turn.tree.span(span_id)
    for _ in range(_MAX_DEPTH):
        span = None if span is None else turn.tree.parent(span)
        if span is None:
            return
        yield span
