"""Read a span again without a part of it: what then is missing from its step is what that part told."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple, TypeAlias

from spanscore.model.json import dumps
from spanscore.model.record import record
from spanscore.model.span import STATUS_UNSET, Event, LogRecord, Span, Value
from spanscore.model.step import Step

_MAX_PARTS = 500  # of one span: more only lie in hostile ones

ReadOne: TypeAlias = Callable[[Span, str, Sequence[LogRecord]], Step]
"""Reads one span, with its log records, by the dialect of that name."""


class Part(NamedTuple):
    """A place in a span, or in its events or log records, that may hold something: `at` is -1 for the span itself."""

    kind: str
    at: int
    key: str

    def named(self, step: Step, logs: Sequence[LogRecord]) -> str:
        """The part in words for people: an attribute by its key, those of events and log records by theirs as well."""
        if self.kind == "event":
            return f"event {step.span.events[self.at].name}: {self.key}"
        if self.kind == "log":
            return f"log record {logs[self.at].event_name or '(no event name)'}: {self.key}"
        return self.key


_FIELDS = (Part("field", -1, "span name"), Part("field", -1, "status"))
BODY = "body"


@record()
class Again:
    """The spans of one reading, to be read again."""

    read_one: ReadOne
    logs: Mapping[str, Sequence[LogRecord]]
    _without: dict[tuple[int, Part], tuple[Step, Step]] = field(default_factory=dict)

    def parts(self, step: Step) -> Iterator[tuple[Part, str]]:
        """The parts of a step's span, each with what it holds as text; the first 500."""
        for number, found in enumerate(self._parts(step)):
            if number >= _MAX_PARTS:
                return
            yield found

    def _parts(self, step: Step) -> Iterator[tuple[Part, str]]:
        for key, value in step.span.attributes.items():
            yield Part("attribute", -1, key), _text(value)
        for at, event in enumerate(step.span.events):
            for key, value in event.attributes.items():
                yield Part("event", at, key), _text(value)
        for at, log in enumerate(self._logs(step)):
            yield Part("log", at, BODY), _text(log.body)
            for key, value in log.attributes.items():
                yield Part("log", at, key), _text(value)
        yield _FIELDS[0], step.span.name
        yield _FIELDS[1], step.span.status_message

    def name(self, step: Step, part: Part) -> str:
        """A part in words for people."""
        return part.named(step, self._logs(step))

    def without(self, step: Step, *parts: Part) -> Step:
        """The step as it would have been read without these parts of its span."""
        if len(parts) != 1:
            return self._changed(step, dict.fromkeys(parts))
        key = id(step), parts[0]  # all facts of a step ask for the same
        if key not in self._without:
            self._without[key] = step, self._changed(step, dict.fromkeys(parts))
        return self._without[key][1]

    def with_text(self, step: Step, part: Part, old: str, new: str) -> Step:
        """The step as it would have been read if this part had held the text `new` in place of `old`."""
        return self._changed(step, {part: (old, new)})

    def _changed(self, step: Step, changes: Mapping[Part, tuple[str, str] | None]) -> Step:
        span, logs = step.span, list(self._logs(step))
        attributes, events = dict(span.attributes), list(span.events)
        for part, change in changes.items():
            if part.kind == "attribute":
                _change(attributes, part.key, change)
            elif part.kind == "event":
                events[part.at] = _changed_event(events[part.at], part.key, change)
            elif part.kind == "log":
                logs[part.at] = _changed_log(logs[part.at], part.key, change)
            elif part == _FIELDS[0]:
                span = replace(span, name="" if change is None else span.name.replace(*change))
            else:
                span = replace(span, status_code=STATUS_UNSET, status_message="")
        span = replace(span, attributes=attributes, events=tuple(events))
        return self.read_one(span, step.dialect, logs)

    def _logs(self, step: Step) -> Sequence[LogRecord]:
        return self.logs.get(step.span.span_id, ())


def _changed_event(event: Event, key: str, change: tuple[str, str] | None) -> Event:
    attributes = dict(event.attributes)
    _change(attributes, key, change)
    return replace(event, attributes=attributes)


def _changed_log(log: LogRecord, key: str, change: tuple[str, str] | None) -> LogRecord:
    if key == BODY:
        return replace(log, body=None if change is None else _replaced(log.body, *change))
    attributes = dict(log.attributes)
    _change(attributes, key, change)
    return replace(log, attributes=attributes)


def _change(attributes: dict[str, Value], key: str, change: tuple[str, str] | None) -> None:
    if change is None:
        attributes.pop(key, None)
    else:
        attributes[key] = _replaced(attributes.get(key), *change)


def _replaced(value: Any, old: str, new: str) -> Any:
    """The value with a text in it replaced; OTLP bounds how deep it can be."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_replaced(x, old, new) for x in value]
    if isinstance(value, dict):
        return {key: _replaced(x, old, new) for key, x in value.items()}
    return value


def _text(value: Value) -> str:
    return value if isinstance(value, str) else dumps(value)
