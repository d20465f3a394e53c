"""Turns recorded in log records or in several traces."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from spanscore.dialects.forms.structure import (
    Facts,
    GivenFacts,
    count,
    first_identity,
    identity,
    is_redacted,
    text,
)
from spanscore.model.json import dumps
from spanscore.model.span import Attributes, Link, LogRecord, Scope, Span, Value, changed
from spanscore.model.step import Message

Part: TypeAlias = tuple[list[Span], list[LogRecord]]
"""The spans of one turn, and its log records, each under the id of the span that it is about."""

_GOES_ON = b"unit".hex()
"""How the ids of units begin that go on, so that they are known as such wherever ids are kept."""

_NS_PER_MS = 1_000_000


class Unit(NamedTuple):
    """What is read as one: all items with these names.

    `goes_on`: it has no end, as a session; else it is one turn.
    """

    names: tuple[str, ...]
    goes_on: bool


@dataclass(frozen=True, slots=True)
class LogTurns:
    """How one emitter's turns are found where they are not one trace each.

    It is for log records, and with `with_spans` for spans too, whose scope's name starts with
    `scope`. `unit` gives the unit that such an item is read with, by its attributes and its trace
    id; None where that is the trace. `parts` is given the id of a unit and everything that was
    gathered for it. It divides that into turns, adds the spans for which only log records were
    sent, and gives each record the ids of the span that it is about. What it leaves out is not
    read.
    """

    scope: str
    unit: Callable[[Attributes, str], Unit | None]
    parts: Callable[[str, Sequence[Span], Sequence[LogRecord]], Iterator[Part]]
    with_spans: bool = False


def prompt_turns(
    scope: str, *, session: tuple[str, ...], prompt: str, steps: Collection[str]
) -> LogTurns:
    """The turns of an emitter that records everything in log records: each goes from one prompt to
    the next.

    `scope` is the beginning of the name of the records' scope. `session` are attributes that may
    contain the session's id; the first that has a value counts. `prompt` and `steps` are names of
    events. Each such record becomes a span with the record's name, attributes and scope; the span
    of the prompt is around those of the steps. The dialect reads these spans like any others.
    Records before the first prompt, and records with other names, are left out.
    """

    def unit(attributes: Attributes, _trace_id: str) -> Unit | None:
        named = first_identity(attributes, session)
        return None if named is None else Unit((scope, named), goes_on=True)

    def parts(unit_id: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
        own = [
            x
            for x in logs
            if x.scope.name.startswith(scope) and (name_of(x) == prompt or name_of(x) in steps)
        ]
        for turn in from_prompts(own, prompt):
            yield _spans_of(unit_id, turn), []
        if spans:
            yield list(spans), [x for x in logs if not x.scope.name.startswith(scope)]

    return LogTurns(scope, unit, parts)


def from_prompts(logs: Iterable[LogRecord], prompt: str) -> list[list[LogRecord]]:
    """Log records in order, one list for each turn, which begins with a record named `prompt`.

    Records before the first prompt are left out: they are the end of a turn whose beginning was
    lost.
    """
    turns: list[list[LogRecord]] = []
    for log in in_order(logs):
        if name_of(log) == prompt:
            turns.append([])
        if turns:
            turns[-1].append(log)
    return turns


def _spans_of(unit: str, turn: Sequence[LogRecord]) -> list[Span]:
    """The spans of one turn: that of the prompt, and one inside it for each other record."""
    opening, *rest = turn
    root = around(span_of(unit, name_of(opening), opening), (x.time_ns for x in turn))
    numbered = ((f"{log.time_ns} {number}", log) for number, log in enumerate(rest))
    return [
        root,
        *(span_of(unit, name_of(log), log, identity=place, parent=root) for place, log in numbered),
    ]


def unit_id(unit: Unit) -> str:
    """The id that stands for `unit` in place of a trace id: the same one on every call.

    >>> unit_id(Unit(("codex", "5f1c"), goes_on=True))
    '756e69743bd28808858a0e1a1d407873'
    """
    digest = _digest("unit", *unit.names)
    return _GOES_ON + digest[: 32 - len(_GOES_ON)] if unit.goes_on else digest[:32]


def goes_on(unit: str) -> bool:
    """Whether the id is that of a unit without an end: records that come late are then its next
    turn, and not the rest of this one.
    """
    return unit.startswith(_GOES_ON)


def name_of(log: LogRecord) -> str:
    """The event's name: its attribute, since some emitters write a place in their source code into
    the field for the name.
    """
    name = log.attributes.get("event.name")
    return name if isinstance(name, str) else log.event_name


def in_order(logs: Iterable[LogRecord]) -> list[LogRecord]:
    """Each record once, by time; those of one moment in the order in which their emitter numbered
    them.
    """
    known = {dumps([x.time_ns, x.span_id, dict(x.attributes)]): x for x in logs}
    return [
        x
        for _, x in sorted(
            known.items(), key=lambda item: (item[1].time_ns, _number(item[1]), item[0])
        )
    ]


def span_of(
    unit: str,
    name: str,
    about: LogRecord,
    *,
    identity: str = "",
    parent: Span | None = None,
    scope: str = "",
) -> Span:
    """The span that a record stands for, with the record's attributes; it ended with the record and
    lasted `duration_ms`.

    Its id derives from its `identity` in the unit, else from its time. `scope` replaces the name of
    the record's scope.
    """
    took_ms = count(about.attributes.get("duration_ms")) or 0
    return Span(
        trace_id=about.trace_id or unit,
        span_id=_digest("span", unit, name, identity or str(about.time_ns))[:16],
        parent_span_id="" if parent is None else parent.span_id,
        name=name,
        kind=1,
        start_ns=max(about.time_ns - took_ms * _NS_PER_MS, 0),
        end_ns=about.time_ns,
        status_code=0,
        status_message="",
        attributes=about.attributes,
        resource=about.resource,
        scope=Scope(scope, about.scope.version) if scope else about.scope,
        links=(Link(about.trace_id, about.span_id),) if about.span_id else (),
        recorded=False,
    )


def around(span: Span, ends: Iterable[int]) -> Span:
    """`span`, with the end of the last span inside it."""
    return changed(span, end_ns=max([span.end_ns, *ends]))


def read_resource(resource: Attributes) -> GivenFacts:
    """The session and user that a resource names, as whoever started the program set them; the
    program itself makes up a conversation and a device.
    """
    return {
        "given_session_id": identity(resource.get("session.id")),
        "given_user_id": first_identity(resource, ("user.id", "enduser.id")),
    }


def read_prompt(prompt: Value) -> Facts:
    """The facts of a record that contains only the user's text."""
    if is_redacted(prompt):
        return {"input": (Message("user", None, damaged=frozenset({"text"})),)}
    question = text(prompt)
    return {} if question is None else {"input": (Message("user", question),)}


def under(span: Span, log: LogRecord) -> LogRecord:
    """`log` as a record of `span`."""
    return changed(log, trace_id=span.trace_id, span_id=span.span_id)


class Calls:
    """Calls by when they began and ended."""

    __slots__ = ("_by_end", "_by_start")

    def __init__(self, spans: Iterable[Span]) -> None:
        calls = list(spans)
        self._by_start = sorted(calls, key=_start_ns)
        self._by_end = sorted(calls, key=_end_ns)

    def nearest(self, time_ns: int, *, by_end: bool) -> Span | None:
        """The call that ended (or began) nearest to a moment; None where there are no calls."""
        calls, place = (self._by_end, _end_ns) if by_end else (self._by_start, _start_ns)
        at = bisect_left(calls, time_ns, key=place)
        return min(
            calls[max(at - 1, 0) : at + 1], key=lambda x: abs(place(x) - time_ns), default=None
        )


def _start_ns(span: Span) -> int:
    return span.start_ns


def _end_ns(span: Span) -> int:
    return span.end_ns


def _number(log: LogRecord) -> int:
    return count(log.attributes.get("event.sequence")) or 0


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
