"""Find the turns of which only log records came: those that AWS's distribution of OpenTelemetry
moves content into.

Logs and spans go different ways there: records may be sent here whose spans are not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from spanscore.dialects.conventions.adot import listed
from spanscore.dialects.keys.opentelemetry import SESSION_ID
from spanscore.dialects.log_turns import LogTurns, Part, Unit, around, name_of, span_of, under
from spanscore.model.json import dumps
from spanscore.model.span import Attributes, LogRecord, Span

Bodies: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The bodies of a trace's records, by the ids of their spans."""


def record_turns(
    scope: str,
    attributes_of: Callable[[Bodies], Mapping[str, Attributes]],
    is_around: Callable[[Attributes], bool] = lambda _attributes: False,
) -> LogTurns:
    """The turns of an emitter whose spans are missing from a trace, with a span for each record.

    `scope` is the beginning of the name of the records' scope. `attributes_of` gives the attributes
    by which such a span is read, by span id; a record without any is left out. `is_around` is true
    of those of a span that other spans were inside of: they are put under it where it was given
    what they were.
    """

    def parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
        own = {
            x.span_id: x
            for x in sorted(logs, key=lambda x: (x.time_ns, x.span_id))
            if x.span_id and x.scope.name.startswith(scope) and _is_moved(x)
        }
        if not own or any(x.scope.name.startswith(scope) for x in spans):
            yield list(spans), list(logs)
            return
        bodies = {span_id: x.body for span_id, x in own.items() if isinstance(x.body, dict)}
        found = attributes_of(bodies)
        made = {
            span_id: _span(unit, own[span_id], attributes) for span_id, attributes in found.items()
        }
        others = [x for x in logs if x.span_id not in own]
        moved = [under(made[span_id], own[span_id]) for span_id in made]
        placed = _placed(made, bodies, is_around)
        yield [*spans, *placed], [*others, *moved]

    return LogTurns(scope, _unit, parts)


def _unit(_attributes: Attributes, _trace_id: str) -> Unit | None:
    """Its trace, as for spans."""
    return None


def _is_moved(log: LogRecord) -> bool:
    return name_of(log) == log.scope.name and isinstance(log.body, dict)


def _span(unit: str, log: LogRecord, attributes: Attributes) -> Span:
    """The span that a record stands for; it has the session that the record names."""
    span = span_of(unit, name_of(log), log, identity=log.span_id)
    session = log.attributes.get(SESSION_ID)
    named: Attributes = {} if session is None else {SESSION_ID: session}
    return replace(span, attributes={**named, **attributes})


def _placed(
    made: Mapping[str, Span], bodies: Bodies, is_around: Callable[[Attributes], bool]
) -> Iterator[Span]:
    """The spans, those inside another under it; records are written as their spans end, in this
    order.
    """
    outer = [x for x in made if is_around(made[x].attributes)]
    inside: defaultdict[str, list[Span]] = defaultdict(list)
    for span_id, span in made.items():
        if span_id in outer:
            continue
        later = [x for x in outer if made[x].end_ns >= span.end_ns]
        given = _given(bodies[span_id])
        above = next((x for x in later if given and _given(bodies[x]) == given), None)
        parent = above or (later[0] if later else None)
        if parent is None:
            yield span
        else:
            inside[parent].append(replace(span, parent_span_id=made[parent].span_id))
    for span_id in outer:
        yield _begun(made[span_id], inside[span_id])
        yield from inside[span_id]


def _begun(span: Span, inside: Iterable[Span]) -> Span:
    """`span`, with the beginning of the first span inside it."""
    spans = list(inside)
    first = min([span.start_ns, *(x.start_ns for x in spans)])
    return replace(around(span, (x.end_ns for x in spans)), start_ns=first)


def _given(body: Mapping[str, Any]) -> str | None:
    """The user's messages in a record, as JSON; None where it has none."""
    questions = [x.get("content") for x in listed(body, "input") if x["role"] == "user"]
    return dumps(questions) if questions else None
