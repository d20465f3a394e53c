"""Losses before a span arrived."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spanscore.dialects.forms.truncation import mended
from spanscore.model.json import loads, printed
from spanscore.model.span import STATUS_UNSET, Attributes, Event, LogRecord, Span, Value
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


MASK = "****"
"""What stands in place of a text, or of a part of it, that was masked and not hashed."""

# attributes of a span, as SDKs have it: one with so many lost some, though nobody counted them
_USUAL_LIMIT = 128
_MASKED, _MASKED_IN_BODY = "redaction.masked", "redaction.body.masked"
_DELETED, _DELETED_IN_BODY = "redaction.redacted", "redaction.body.redacted"
_MASKED_COUNT, _DELETED_COUNT = f"{_MASKED}.count", f"{_DELETED}.count"
_COUNTS = frozenset(
    (_MASKED_COUNT, _DELETED_COUNT, f"{_MASKED_IN_BODY}.count", f"{_DELETED_IN_BODY}.count")
)
_HASH = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})\b")
_INFRASTRUCTURE = (
    "http.",
    "url.",
    "net.",
    "network.",
    "server.",
    "client.",
    "db.",
    "rpc.",
    "messaging.",
)
# events whose readers find what is lost with the first ones
_STREAMED = ("mlflow.chunk.item.", "new_token")


class RecordedLosses(NamedTuple):
    """Whether a span, its events or its log records lost attributes; if it lost events; if some of
    that is masked.
    """

    attributes: bool
    events: bool
    masked: bool


def is_of_infrastructure(key: str) -> bool:
    """Whether an attribute is about requests and databases, and never about an agent's work."""
    return key.startswith(_INFRASTRUCTURE)


def is_noted(spans: Sequence[Span], logs: Mapping[str, Sequence[LogRecord]]) -> bool:
    """Whether any span or log record of a trace records that it lost something."""
    for span in spans:
        attributes, events = span.attributes, span.events
        if (
            span.dropped_attributes_count
            or (span.dropped_events_count and _lost_events(span))
            or len(attributes) == _USUAL_LIMIT
            or _MASKED_COUNT in attributes
            or _DELETED_COUNT in attributes
            or (events and any(map(_is_noted, events)))
        ):
            return True
    return any(_is_noted(x) for each in logs.values() for x in each)


def lost(span: Span, logs: Sequence[LogRecord]) -> RecordedLosses:
    """What a span lost, as far as that was noted."""
    beside: list[Event | LogRecord] = [*span.events, *logs]
    holders = [span.attributes, *(x.attributes for x in beside)]
    counted = span.dropped_attributes_count or len(span.attributes) == _USUAL_LIMIT
    counted = counted or any(x.dropped_attributes_count for x in beside)
    return RecordedLosses(
        attributes=bool(counted) or any(map(_deleted, holders)),
        events=_lost_events(span),
        masked=any(map(_is_redacted, holders)),
    )


def is_masked(part: Part, text: str, span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether nothing but a mask is left of a part of a span, or it was noted beside it that it is
    masked.

    Where the masked ones were only counted, a mask or a hash in the text shows it.
    """
    if part.kind == "field":
        return False
    if text == MASK:
        return True
    beside = attributes_beside(part, span, logs)
    noted = _MASKED_IN_BODY if part.kind == "body" else _MASKED
    names = beside.get(f"{noted}.keys")
    if isinstance(names, str) and part.kind != "body":
        return part.key in names.split(",")
    return f"{noted}.count" in beside and (MASK in text or _HASH.search(text) is not None)


def attributes_beside(part: Part, span: Span, logs: Sequence[LogRecord]) -> Attributes:
    """The attributes among which a part of a span stands; of a log record's body, those beside
    it.
    """
    if part.kind == "attribute":
        return span.attributes
    return span.events[part.at].attributes if part.kind == "event" else logs[part.at].attributes


def _lost_events(span: Span) -> bool:
    return span.dropped_events_count > 0 and not (
        span.events and span.events[0].name.startswith(_STREAMED)
    )


def _is_noted(record: Event | LogRecord) -> bool:
    return record.dropped_attributes_count > 0 or _is_redacted(record.attributes)


def _is_redacted(holder: Attributes) -> bool:
    return not _COUNTS.isdisjoint(holder)


def _deleted(holder: Attributes) -> bool:
    """Whether it was noted that something was deleted that may have been of an agent's work."""
    if f"{_DELETED_IN_BODY}.count" in holder:
        return True
    names = holder.get(f"{_DELETED}.keys")
    if isinstance(names, str):
        return not all(map(is_of_infrastructure, names.split(",")))
    return _DELETED_COUNT in holder


Limits: TypeAlias = Mapping[tuple[str | None, str], int]
"""Characters, by service and by where values stand: "attribute", "event" or "log"."""

_MIN_CHARS = 12
_ROUND = (50, 32)  # limits are such numbers, or multiples of them
_USUAL = frozenset(2**x for x in range(6, 21))
_MANY = 3  # different texts of one length that is no such number
_MAX_BYTES = 4  # of a character
_NESTED = frozenset((list, dict))
_LAST = frozenset(
    ".!?\u2026\u3002\uff01\uff1f\"'`)]}>"
)  # how a text or JSON ends that is whole; of those that are cut, few end so
# ids, hashes, names and addresses: many have one length, and are whole
_ID = re.compile(r"[\w.:/@+=-]*", re.ASCII)


class _Longest:
    """The longest texts of one service at one kind of place."""

    __slots__ = ("chars", "texts")

    def __init__(self) -> None:
        self.chars = _MIN_CHARS
        self.texts: list[str] = []

    def take(self, holders: Iterable[Attributes]) -> None:
        """Look at all values. Every attribute of every trace passes through here."""
        chars, texts = self.chars, self.texts
        for attributes in holders:
            for value in attributes.values():
                if value.__class__ is str and len(value) >= chars:
                    if len(value) > chars:
                        chars, texts = len(value), []
                    texts.append(value)
        self.chars, self.texts = chars, texts

    def take_nested(self, attributes: Attributes) -> None:
        """Look at all texts of a log record: its messages are arrays and maps, of which SDKs cut
        each text.
        """
        self.take((attributes,))
        if not _NESTED.isdisjoint(map(type, attributes.values())):
            self.take({"": x} for x in strings(dict(attributes)))

    @property
    def limit(self) -> int | None:
        """The greatest length, in characters or in bytes, if it is one at which values are cut."""
        if self._is_limit(self.chars):
            return self.chars
        wide = [x.rstrip("\ufffd") for x in self.texts if x[-1] not in _LAST and not x.isascii()]
        sizes = [len(x.encode("utf-8", "surrogatepass")) for x in wide[:_MANY]]
        in_bytes = [x for size in sizes for x in range(size, size + _MAX_BYTES) if x in _USUAL]
        return next(filter(self._is_limit, in_bytes), None)

    def _is_limit(self, size: int) -> bool:
        """Whether values are cut at the length that the longest have.

        That is so where a value of it is JSON that just ends, or where texts have it that do not
        end as texts do: one is enough if it is a power of two, as most limits are, two if it is
        another round number, else three.
        """
        # then a closer look is worth it where the cut may have come after a bracket
        is_usual = size in _USUAL
        if any(
            x[0] in "{[" and (is_usual or x[-1] not in "}]") and mended(x) is not None
            for x in self.texts
        ):
            return True
        unfinished = {x for x in self.texts if x[-1] not in _LAST}
        if not unfinished:  # as mostly
            return False
        many = 1 if is_usual else _MANY if all(size % x for x in _ROUND) else 2
        return len(unfinished) >= many and sum(not _ID.fullmatch(x) for x in unfinished) >= many


def strings(value: Value) -> Iterator[str]:
    """All texts in an array or map; it is no deeper than `otlp.decode.MAX_DEPTH`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for element in value.values() if isinstance(value, dict) else value:
            yield from strings(element)


def is_of_length(text: str, chars: int | None) -> bool:
    """Whether a text may have been cut at a limit, in characters, or in what else emitters count:
    bytes, UTF-16 units.

    What counts bytes cuts before a character or through it, of which U+FFFD is left.

    >>> is_of_length("Zürich", 6), is_of_length("Zürich", 7), is_of_length("Zurich", 7)
    (True, True, False)
    """
    if chars is None or len(text) > chars:
        return False
    if len(text) == chars or text.isascii():
        return len(text) == chars
    whole = text.rstrip("\ufffd")
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return units == chars or 0 <= chars - len(whole.encode("utf-8", "surrogatepass")) < _MAX_BYTES


def limits(spans: Sequence[Span], logs: Mapping[str, Sequence[LogRecord]]) -> Limits:
    """The lengths at which values were cut; nothing for a service and a place where none shows.

    Where a limit shows at one place, it counts at another one too if the longest value has that
    length there.
    """
    found: dict[tuple[str | None, str], _Longest] = {}
    for sharing in _by_resource(spans):
        service = sharing[0].resource.service_name
        found.setdefault((service, "attribute"), _Longest()).take([x.attributes for x in sharing])
        events = [event.attributes for x in sharing if x.events for event in x.events]
        if events:
            found.setdefault((service, "event"), _Longest()).take(events)
    for records in logs.values():
        for record in records:
            found.setdefault((record.resource.service_name, "log"), _Longest()).take_nested(
                record.attributes
            )
    shown = {(key[0], size) for key, x in found.items() if (size := x.limit) is not None}
    if not shown:
        return {}
    return {
        key: size
        for key, x in found.items()
        for size in (x.limit, x.chars)
        if size and (key[0], size) in shown
    }


def _by_resource(spans: Sequence[Span]) -> Iterable[Sequence[Span]]:
    """The spans of each resource, mostly all of a trace: asking each span for its service would
    take longer.
    """
    if len({id(x.resource) for x in spans}) == 1:
        return (spans,)
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(id(span.resource), []).append(span)
    return found.values()
