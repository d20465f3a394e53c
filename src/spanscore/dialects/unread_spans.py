"""Descriptions, without content, of spans nobody reads."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanscore.dialects.forms.structure import REFERENCE_SUFFIX
from spanscore.model.json import dumps
from spanscore.model.span import LogRecord, Span, Value
from spanscore.model.step import Reading, Step

_MAX_GROUPS = 1000
_MAX_KEYS = 200  # of one group
_LONG_CHARS = 80  # from here on text is content rather than a name
_PROSE_SPACES = 3  # likewise
_CONTENT = re.compile(
    "prompt|message|input|output|tool|function|completion|content|query|question|answer|response|request|result"
    "|argument|args|param|instruction|conversation|session|user|agent|model|token|document|text|history|reply|json",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    "prompt|message|input|output|completion|content|query|question|answer|response|request|result",
    re.IGNORECASE,
)
_SPEAKING = frozenset({"model", "agent", "workflow"})
_HOLDING = frozenset({"JSON", "list", "map"})
_VARYING = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]{4,}|\d+")
_BODY = "(body)"


@dataclass(slots=True)
class Key:
    """A key that looks like content: how its values are written, how many there were and the size
    of the longest.
    """

    kinds: set[str] = field(default_factory=set)
    count: int = 0
    longest_chars: int = 0


@dataclass(slots=True)
class Unread:
    """Spans or log records of one scope and name that no dialect reads.

    What varies in a name is written `#`.

    `other_keys` do not look like content, but what distinguishes the kinds of span may be among
    them.
    """

    signal: str
    scope: str
    version: str
    name: str
    count: int = 0
    keys: dict[str, Key] = field(default_factory=dict)
    other_keys: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        """What `spanscore inspect --unread --jsonl` prints on one line."""
        return {
            "signal": self.signal,
            "scope": self.scope,
            "version": self.version,
            "name": self.name,
            "count": self.count,
            "keys": [
                {
                    "key": key,
                    "kinds": sorted(found.kinds),
                    "count": found.count,
                    "longest_chars": found.longest_chars,
                }
                for key, found in sorted(self.keys.items())
            ],
            "other_keys": sorted(self.other_keys),
        }


def unread(readings: Iterable[Reading], logs: Iterable[LogRecord]) -> list[Unread]:
    """The spans in `readings` that no dialect reads, or of which it reads no content though they
    have some, and the log records of no span that is read; those with most content first.

    Values are left out, since they may be private. Keys that differ only in an index are listed
    once.
    """
    found: dict[tuple[str, str, str, str], Unread] = {}
    read: set[tuple[str, str]] = set()
    for reading in readings:
        claimed = {x.span.span_id: x for x in reading.steps if x.dialect}
        for span in reading.spans:
            step = claimed.get(span.span_id)
            if step is not None:
                read.add((span.trace_id, span.span_id))
            items = _of_span(span) if step is None else unread_content(step)
            if items or step is None:
                key = "span", span.scope.name, span.scope.version, span.name
                _add(_group(found, *key), items)
    for log in logs:
        if (log.trace_id, log.span_id) in read:
            continue
        group = _group(found, "log record", log.scope.name, log.scope.version, log.event_name)
        _add(group, [*log.attributes.items(), (_BODY, log.body)])
    return sorted(found.values(), key=lambda x: (-len(x.keys), -x.count, x.signal, x.scope, x.name))


def _group(
    found: dict[tuple[str, str, str, str], Unread], signal: str, scope: str, version: str, name: str
) -> Unread | None:
    pattern = _VARYING.sub("#", name[:200])
    key = signal, scope, version, pattern
    if key not in found and len(found) >= _MAX_GROUPS:
        return None
    return found.setdefault(key, Unread(signal, scope, version, pattern))


def unread_content(step: Step) -> list[tuple[str, Value]]:
    """The attributes of a model call, agent or workflow that look like its content, where nothing
    was read as such.
    """
    read = (step.input, step.output, step.input_text, step.output_text, step.output_json)
    if step.kind not in _SPEAKING or any(x is not None for x in read):
        return []
    return [
        (name, value)
        for name, value in step.span.attributes.items()
        if _SPOKEN.search(name)
        and not name.endswith(REFERENCE_SUFFIX)
        and _is_prose(dumps(value) if isinstance(value, list | dict) else value)
    ]


def upload_address(step: Step, logs: Sequence[LogRecord]) -> str | None:
    """Where content of a step was uploaded that is in neither its span nor the span's log records:
    the folder, without what may sign its address.
    """
    for attributes in (step.span.attributes, *(log.attributes for log in logs)):
        for name, value in attributes.items():
            is_address = name.startswith("gen_ai.") and name.endswith(REFERENCE_SUFFIX)
            if is_address and isinstance(value, str):
                return value.partition("?")[0].rpartition("/")[0] or None
    return None


def _of_span(span: Span) -> list[tuple[str, Value]]:
    found = list(span.attributes.items())
    for event in span.events:
        found.append((f"event {event.name[:100]}", None))
        found += [
            (f"event {event.name[:100]}: {key}", value) for key, value in event.attributes.items()
        ]
    return found


def _add(group: Unread | None, items: Iterable[tuple[str, Value]]) -> None:
    if group is None:
        return
    group.count += 1
    for name, value in items:
        kind, chars = _written(value)
        pattern = _VARYING.sub("#", name[:200])
        if not (_CONTENT.search(name) or kind in _HOLDING or _is_prose(value)):
            if len(group.other_keys) < _MAX_KEYS and name != _BODY:
                group.other_keys.add(pattern)
        elif pattern in group.keys or len(group.keys) < _MAX_KEYS:
            key = group.keys.setdefault(pattern, Key())
            key.kinds.add(kind)
            key.count += 1
            key.longest_chars = max(key.longest_chars, chars)


def _is_prose(value: Value) -> bool:
    return isinstance(value, str) and (
        len(value) >= _LONG_CHARS or value.count(" ") >= _PROSE_SPACES
    )


def _written(value: Value) -> tuple[str, int]:
    """How a value is written, and its size in characters."""
    if isinstance(value, str):
        return ("JSON" if value[:1] in ("{", "[") and value[-1:] in ("}", "]") else "text"), len(
            value
        )
    for type_, kind in _KINDS:
        if isinstance(value, type_):
            return kind, len(dumps(value)) if isinstance(value, (list, dict)) else 0
    return "empty", 0


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "number"),
    (float, "number"),
    (list, "list"),
    (dict, "map"),
    (bytes, "bytes"),
)
