"""Find which spans and log records are read together, where these are not the ones of one
trace id.
"""

from collections.abc import Callable, Iterable

from spanscore.dialects.log_turns import LogTurns, Part, unit_id
from spanscore.dialects.registry import registry
from spanscore.model.span import Attributes, LogRecord, Span


def unit_scopes() -> tuple[str, ...]:
    """The beginnings of the names of scopes whose spans or log records are not all read by their
    trace ids.
    """
    return registry().log_scopes


def unit_of(
    scope_name: str, trace_id: str, attributes: Callable[[], Attributes], *, of_log: bool
) -> str:
    """The id of the unit that a span or log record is read in, 32 hex digits; "" for a log record
    of no trace.

    Mostly it is the trace id; then `attributes` is not called.
    """
    found = registry()
    if scope_name.startswith(found.log_scopes):
        turns = next(x for x in found.log_turns if scope_name.startswith(x.scope))
        named = turns.unit(attributes(), trace_id) if of_log or turns.with_spans else None
        if named is not None:
            return unit_id(named)
    return trace_id


def split_units(spans: Iterable[Span], logs: Iterable[LogRecord]) -> list[Part]:
    """The turns in what was gathered under one id, a part for each where turns are not traces; else
    everything as one part.
    """
    parts, scopes = [(list(spans), list(logs))], unit_scopes()
    names = {x.scope.name for item in parts[0] for x in item}
    if not any(x.startswith(scopes) for x in names):
        return parts
    for turns in registry().log_turns:
        divided = list[Part]()
        for part in parts:
            unit = _unit(turns, part)
            divided += [part] if unit is None else turns.parts(unit, *part)
        parts = divided
    return parts


def merge_units(gathered: Iterable[Part]) -> list[Part]:
    """The parts of one turn that were gathered under several ids, with log records that have no
    spans added to the first spans.

    If no part has spans, all parts are left as they are.
    """
    parts = list(gathered)
    spans_at = next((at for at, (spans, _) in enumerate(parts) if spans), None)
    if spans_at is not None:
        spans, logs = parts[spans_at]
        parts[spans_at] = spans, [*logs, *(x for given, more in parts if not given for x in more)]
        parts = [x for x in parts if x[0]]
    return [x for part in parts for x in split_units(*part)]


def _unit(turns: LogTurns, part: Part) -> str | None:
    """The id under which a part was gathered, if it contains spans or log records of the emitter of
    `turns`.
    """
    spans, logs = part
    log = next((x for x in logs if x.scope.name.startswith(turns.scope)), None)
    if log is not None:
        return unit_of(log.scope.name, log.trace_id, lambda: log.attributes, of_log=True)
    span = next(
        (x for x in spans if turns.with_spans and x.scope.name.startswith(turns.scope)), None
    )
    return (
        None
        if span is None
        else unit_of(span.scope.name, span.trace_id, lambda: span.attributes, of_log=False)
    )
