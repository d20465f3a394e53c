"""Notes on traces as they are rebuilt: attributes that rules read, and who records no content."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from spanscore import dialects, turns
from spanscore.evaluation.rules import MAX_TEXT, STATUS
from spanscore.model.span import STATUS_ERROR, STATUS_OK, Scalar, Span, Value
from spanscore.model.step import Reading
from spanscore.model.trace import MAX_TAGS, TAGS, AgentTrace, shortened

_MAX_KNOWN = 1000
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Silent:
    """Instrumentations that record no content, by the name of their scope; `how` turns it on, where
    that is known. `unread` are attributes that look like content, and that no dialect reads;
    `uploaded` are the folders to which content was uploaded in place of being recorded.
    """

    scopes: tuple[str, ...]
    how: str | None
    unread: tuple[str, ...] = ()
    uploaded: tuple[str, ...] = ()

    def __str__(self) -> str:
        r"""What to tell whoever wonders why there are no scores.

        >>> print(*str(Silent(("my.scope",), "set A=1")).split(": "), sep="\n")
        my.scope records no questions, answers or arguments
        what rests on them is not scored. To record them, set A=1
        """
        who = " and ".join(self.scopes)
        if self.uploaded:
            return (
                f"{who}: questions, answers and arguments were uploaded to"
                f" {', '.join(self.uploaded)}, and are not read from there: what rests on them is"
                " not scored. Record them on the spans too"
            )
        how = self.how or (
            "turn on the capture of message content where the agent is instrumented, and send log"
            " records too"
        )
        if self.unread and self.how is None:
            how = (
                f"write {', '.join(self.unread)} under a convention's names; `spanscore inspect"
                " --unread` lists them"
            )
        what = "no questions, answers or arguments: what rests on them is not scored"
        return (
            f"{who} {'records' if len(self.scopes) == 1 else 'record'} {what}. To record them,"
            f" {how}"
        )


Sender: TypeAlias = tuple[str | None, tuple[str, ...]]
"""A service and the dialects of a trace that it sent."""


@dataclass(frozen=True, slots=True)
class ContentNote:
    """That a sender's trace has content, or else whose spans lack it."""

    sender: Sender
    silent: Silent | None = None


class ContentNotes:
    """A `turns.Watch` that notes for a `ContentWatch` in another process. Not thread-safe.

    Of traces with content the first of each sender is noted, of others each.
    """

    def __init__(self) -> None:
        self._known: dict[Sender, Silent | None] = {}
        self._notes: list[ContentNote] = []

    def __call__(self, trace: AgentTrace, _turn: turns.TurnSteps, reading: Reading) -> None:
        """Note whether a trace has content."""
        if _is_alone(trace):
            return
        sender = _sender(trace)
        if trace.has_content:
            if sender not in self._known or self._known[sender] is not None:
                self._note(ContentNote(sender))
        else:
            self._note(ContentNote(sender, self._known.get(sender) or _silent(reading)))

    def take(self) -> list[ContentNote]:
        """What was noted since this was asked last."""
        notes, self._notes = self._notes, []
        return notes

    def _note(self, note: ContentNote) -> None:
        self._notes.append(note)
        if note.sender in self._known or len(self._known) < _MAX_KNOWN:
            self._known[note.sender] = note.silent


class ContentWatch:
    """A `turns.Watch` that notes which instrumentations record no content.

    May be called from several threads.

    An instrumentation counts as silent where a trace of it has no content, and none that the same
    service sent in the same dialects had any.
    """

    def __init__(self, tell: Callable[[Silent], None] = lambda _: None) -> None:
        """`tell` is called with each as soon as it shows."""
        self._tell = tell
        self._lock = threading.Lock()
        self._speaking: set[Sender] = set()
        self._silent: dict[Sender, Silent] = {}
        self.count = 0

    def __call__(self, trace: AgentTrace, _turn: turns.TurnSteps, reading: Reading) -> None:
        """Note whether a trace has content."""
        if _is_alone(trace):
            return
        sender = _sender(trace)
        if trace.has_content:
            self._has_content(sender)
        elif self._is_new(sender):
            self._lacks_content(sender, _silent(reading))

    def take(self, note: ContentNote) -> None:
        """Take in what was noted of a trace elsewhere."""
        if note.silent is None:
            self._has_content(note.sender)
        elif self._is_new(note.sender):
            self._lacks_content(note.sender, note.silent)

    def _has_content(self, sender: Sender) -> None:
        with self._lock:
            if len(self._speaking) < _MAX_KNOWN:
                self._speaking.add(sender)

    def _is_new(self, sender: Sender) -> bool:
        """Count a trace without content; whether it is the first of its sender."""
        with self._lock:
            self.count += 1
            return not (
                sender in self._speaking
                or sender in self._silent
                or len(self._silent) >= _MAX_KNOWN
            )

    def _lacks_content(self, sender: Sender, silent: Silent) -> None:
        with self._lock:
            is_first = self._silent.setdefault(sender, silent) is silent
        if is_first:
            self._tell(silent)

    @property
    def silent(self) -> list[Silent]:
        """Who records no content, each once."""
        with self._lock:
            found = [x for sender, x in self._silent.items() if sender not in self._speaking]
        return list(dict.fromkeys(found))


def _is_alone(trace: AgentTrace) -> bool:
    """Whether it is an agent's span alone, which may well have no content."""
    return not trace.model_calls and not trace.tool_calls


def _sender(trace: AgentTrace) -> Sender:
    return trace.service_name, tuple(trace.dialects)


def _silent(reading: Reading) -> Silent:
    """Whose spans these are; those of an instrumentation whose switch is known before others."""
    switches = {
        step.span.scope.name: dialects.recording_switch(step.dialect, step.span.scope.name)
        for step in reading.steps
        if step.dialect is not None
    }
    known = {scope: how for scope, how in switches.items() if how is not None}
    scopes = sorted(known or switches)[:_MAX_NAMED]
    names = tuple(x or "an instrumentation without a name" for x in scopes)
    unread = {name for step in reading.steps for name, _ in dialects.unread_content(step)}
    how = "; ".join(dict.fromkeys(known.values())) or None
    uploaded = {
        address
        for step in reading.steps
        if (address := dialects.upload_address(step, reading.logs.get(step.span.span_id, ())))
    }
    return Silent(
        names, how, tuple(sorted(unread)[:_MAX_NAMED]), tuple(sorted(uploaded)[:_MAX_NAMED])
    )


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
