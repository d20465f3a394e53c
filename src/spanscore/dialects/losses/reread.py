"""Read a span once more without a part of it: the facts that its step then lacks are those of that
part.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spanscore.model.json import loads, printed
from spanscore.model.span import STATUS_UNSET, Event, LogRecord, Span, Value
from spanscore.model.step import Step

ReadOne: TypeAlias = Callable[[Span, str, Sequence[LogRecord]], Step]
"""Reads one span, with its log records, by the dialect of that name."""

_Holder = TypeVar("_Holder", Event, LogRecord)

_Change: TypeAlias = tuple[str, str] | None
"""A text and what is put in its place; None where the part is left out."""


class Part(NamedTuple):
    """A place in a span, its events or its log records that may contain something: `at` is -1 for
    the span itself.
    """

    kind: str
    at: int
    key: str

    def named(self, step: Step, logs: Sequence[LogRecord]) -> str:
        """The part in words for people: an attribute by its key, those of events and log records by
        theirs as well.
        """
        if self.kind == "event":
            return f"event {step.span.events[self.at].name}: {self.key}"
        if self.kind in {"log", "body"}:
            return f"log record {logs[self.at].event_name or '(no event name)'}: {self.key}"
        return self.key


_NAME, _STATUS = Part("field", -1, "span name"), Part("field", -1, "status")
_EMPTY = '""'  # an empty text as JSON has it


class Rereader:
    """The spans of one reading, to be read once more.

    It remembers what was read without a part, since it is needed often, and the log records left of
    a step so read. Both are kept by the id of a step, with the step itself, so that no other one
    gets its id.
    """

    __slots__ = ("_left", "_logs_by_span", "_read_one", "_without")

    def __init__(self, read_one: ReadOne, logs: Mapping[str, Sequence[LogRecord]]) -> None:
        self._read_one, self._logs_by_span = read_one, logs
        self._without: dict[tuple[int, tuple[Part, ...]], tuple[Step, Step]] = {}
        self._left: dict[int, tuple[Step, Sequence[LogRecord]]] = {}

    def parts(self, step: Step) -> Iterator[tuple[Part, str]]:
        """The parts of a step's span, each with its value as text."""
        for key, value in step.span.attributes.items():
            yield Part("attribute", -1, key), printed(value)
        for at, event in enumerate(step.span.events):
            for key, value in event.attributes.items():
                yield Part("event", at, key), printed(value)
        for at, log in enumerate(self._logs(step)):
            yield Part("body", at, "body"), printed(log.body)
            for key, value in log.attributes.items():
                yield Part("log", at, key), printed(value)
        yield _NAME, step.span.name
        yield _STATUS, step.span.status_message

    def name(self, step: Step, part: Part) -> str:
        """A part in words for people."""
        return part.named(step, self._logs(step))

    def without(self, step: Step, *parts: Part) -> Step:
        """The step as it would have been read without these parts of its span; without any, as it
        is.
        """
        if len(parts) > 1:
            return self._changed(step, dict.fromkeys(parts))
        key = id(step), parts
        if key not in self._without:
            self._without[key] = step, self._changed(step, dict.fromkeys(parts))
        return self._without[key][1]

    def with_text(self, step: Step, parts: Sequence[Part], old: str, new: str) -> Step:
        """The step as it would have been read if these parts had contained the text `new` in place
        of `old`.
        """
        return self._changed(step, dict.fromkeys(parts, (old, new)))

    def _changed(self, step: Step, changes: Mapping[Part, _Change]) -> Step:
        span, logs = step.span, list(self._logs(step))
        attributes, events = dict(span.attributes), list(span.events)
        by_place = defaultdict[tuple[str, int], dict[str, _Change]](dict)
        for part, change in changes.items():
            by_place[part.kind, part.at][part.key] = change
        for (kind, at), some in by_place.items():
            if kind == "attribute":
                _change(attributes, some)
            elif kind == "event":
                events[at] = _with_changes(events[at], some)
            elif kind == "log":
                logs[at] = _with_changes(logs[at], some)
            elif kind == "body":
                logs[at] = _changed_body(logs[at], *some.values())
            else:
                span = _changed_fields(span, some)
        span = replace(span, attributes=attributes, events=tuple(events))
        changed = self._read_one(span, step.dialect, logs)
        if logs and None in changes.values():  # it may be read once more without other parts
            self._left[id(changed)] = changed, logs
        return changed

    def _logs(self, step: Step) -> Sequence[LogRecord]:
        left = self._left.get(id(step))
        return self._logs_by_span.get(step.span.span_id, ()) if left is None else left[1]


def _changed_fields(span: Span, changes: Mapping[str, _Change]) -> Span:
    if _NAME.key in changes:
        change = changes[_NAME.key]
        span = replace(span, name="" if change is None else span.name.replace(*change))
    if _STATUS.key in changes:
        span = replace(span, status_code=STATUS_UNSET, status_message="")
    return span


def _with_changes(holder: _Holder, changes: Mapping[str, _Change]) -> _Holder:
    attributes = dict(holder.attributes)
    _change(attributes, changes)
    return replace(holder, attributes=attributes)


def _changed_body(log: LogRecord, change: _Change) -> LogRecord:
    return replace(log, body=None if change is None else _replaced(log.body, *change))


def _change(attributes: dict[str, Value], changes: Mapping[str, _Change]) -> None:
    for key, change in changes.items():
        if change is None:
            attributes.pop(key, None)
        else:
            attributes[key] = _replaced(attributes.get(key), *change)


def _replaced(value: Any, old: str, new: str) -> Any:
    """The value with a text in it replaced, or itself where JSON has it as `old`; OTLP bounds how
    deep it can be.
    """
    if isinstance(value, str) and value:
        return value.replace(old, new)
    if not isinstance(value, str) and printed(value) == old:
        return _read(new)
    if isinstance(value, list):
        return [_replaced(x, old, new) for x in value]
    if isinstance(value, dict):
        return {key: _replaced(x, old, new) for key, x in value.items()}
    return _read(new) if value == "" and old == _EMPTY else value


def _read(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text
