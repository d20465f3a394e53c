"""Model calls under OpenLIT of which only log records come: in asynchronous LangGraph their spans
get lost.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from spanscore.dialects.conventions import semconv
from spanscore.dialects.forms.values import text
from spanscore.dialects.keys.gen_ai import GEN_AI_OPERATION_NAME, GEN_AI_RESPONSE_ID
from spanscore.dialects.log_turns import LogTurns, Part, Unit, span_of, under
from spanscore.model.span import Attributes, LogRecord, Span

SCOPE = "openlit.instrumentation."
_RESPONSE, _OPERATION = GEN_AI_RESPONSE_ID, GEN_AI_OPERATION_NAME
# of a span that records the id of its last model call's response as well
_GRAPH = "invoke_workflow"
_MAX_BEGUN, _MAX_ABOVE = 1000, 64
"""Of a record: spans that began before it, the latest, of which one may be around it; and spans
above that one.

Where it is in none of so many, its model call has nothing around it.
"""


def _unit(_attributes: Attributes, _trace_id: str) -> Unit | None:
    """Its trace, as for spans."""
    return None


def _parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """All of the trace, with a span for each model call that is only in records; they are written
    as it ends.
    """
    known = {x.span_id: x for x in spans}
    own = (
        x
        for x in spans
        if x.scope.name.startswith(SCOPE) and x.attributes.get(_OPERATION) != _GRAPH
    )
    answered = {
        response: x for x in own if (response := text(x.attributes.get(_RESPONSE))) is not None
    }
    lost: defaultdict[str, list[LogRecord]] = defaultdict(list)
    left: list[LogRecord] = []
    for log in logs:
        about = known.get(log.span_id)
        if (
            log.event_name != semconv.DETAILS
            or not log.span_id
            or not log.scope.name.startswith(SCOPE)
        ):
            left.append(log)
        elif about is None:
            lost[log.span_id].append(log)
        else:
            left.append(under(_answering(log, about, answered), log))
    if not lost:
        yield list(spans), left
        return
    places, found = _Places.of(known), list(spans)
    for span_id, records in lost.items():
        first = min(records, key=lambda x: x.time_ns)
        call = span_of(
            unit, semconv.DETAILS, first, identity=span_id, parent=places.around(first.time_ns)
        )
        found.append(replace(call, attributes={_OPERATION: first.attributes.get(_OPERATION)}))
        left += [under(call, x) for x in records]
    yield found, left


def _answering(log: LogRecord, written_in: Span, answered: Mapping[str, Span]) -> Span:
    """The model call that a record is about: that of a stream may be written after it, under what
    is around it.
    """
    operation = log.attributes.get(_OPERATION)
    if written_in.attributes.get(_OPERATION) == operation:
        return written_in
    call = answered.get(text(log.attributes.get(_RESPONSE)) or "")
    return written_in if call is None or call.attributes.get(_OPERATION) != operation else call


class _Places(NamedTuple):
    """The spans of OpenLIT's in a trace by when they began, to find the one in which a record was
    written.
    """

    known: Mapping[str, Span]
    spans: Sequence[Span]
    starts: Sequence[int]

    @classmethod
    def of(cls, known: Mapping[str, Span]) -> "_Places":
        own = (x for x in known.values() if x.scope.name.startswith(SCOPE))
        spans = sorted(own, key=lambda x: (x.start_ns, -x.end_ns))
        return cls(known, spans, [x.start_ns for x in spans])

    def around(self, time_ns: int) -> Span | None:
        """The innermost span that was open at a moment; of several side by side, the one that is
        around them all.
        """
        end = bisect_right(self.starts, time_ns)
        still_open = [x for x in self.spans[max(end - _MAX_BEGUN, 0) : end] if x.end_ns >= time_ns]
        if not still_open:
            return None
        above = list(self._with_above(still_open[-1]))
        ids = {x.span_id for x in above}
        return still_open[-1] if all(x.span_id in ids for x in still_open) else above[-1]

    def _with_above(self, span: Span) -> Iterator[Span]:
        place: Span | None = span
        for _ in range(_MAX_ABOVE):
            if place is None:
                return
            yield place
            place = self.known.get(place.parent_span_id)


LOG_TURNS = (LogTurns(SCOPE, _unit, _parts),)
