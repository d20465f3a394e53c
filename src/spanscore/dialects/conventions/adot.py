"""Content that AWS's distribution moves into log records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from spanscore.dialects.forms.messages import with_blocks
from spanscore.dialects.forms.structure import as_object, objects, structure
from spanscore.dialects.log_turns import LogTurns, Part, Unit, around, name_of, span_of, under
from spanscore.model.json import dumps
from spanscore.model.span import Attributes, LogRecord, Span, Value, changed, record

_DETAILS, _CHOICE = "gen_ai.client.inference.operation.details", "gen_ai.choice"
_MAX_BARE = 200
_ORDER = ("system", "user", "assistant", "tool")  # in which a conversation goes on


def moved(span: Span, log: LogRecord) -> list[tuple[str, Mapping[str, Any]]]:
    """The events that the conventions have for what was moved: name and payload.

    Empty for any other record.

    Such a record is named after the span's scope. What was an event is there as its attributes,
    what was an attribute as its value; of several events of one name only the last is left.
    """
    if log.event_name != span.scope.name or not isinstance(log.body, dict):
        return []
    given = sorted(listed(log.body, "input"), key=lambda x: _ORDER.index(x["role"]))
    events = [_event(x, "gen_ai.input.messages", f"gen_ai.{x['role']}.message") for x in given]
    for message in listed(log.body, "output"):
        content = message.get("content")
        # an answer before this one
        earlier = isinstance(content, dict) and "message" not in content
        at = len(events) - sum(x["role"] == "tool" for x in given) if earlier else len(events)
        events.insert(
            at,
            _event(
                message,
                "gen_ai.output.messages",
                "gen_ai.assistant.message" if earlier else _CHOICE,
            ),
        )
    return events


@record()
class Names:
    """What a convention calls what was moved: a function's input and output, and by index the
    messages of a model.
    """

    value: str
    role: str
    content: str


def with_moved(
    span: Span, logs: Sequence[LogRecord], given: Names, produced: Names, *, is_model: bool
) -> Span:
    """The span with the attributes that were moved into a record of it; the span itself where none
    was.

    Of a model's span what is JSON is the request or response as it came, all else the messages,
    whose roles are left on the span; of another span the first content is what it was given or
    returned.
    """
    body = next(
        (x.body for x in logs if x.event_name == span.scope.name and isinstance(x.body, dict)), None
    )
    if not isinstance(body, dict):
        return span
    moved_back: dict[str, Value] = {}
    for side, names in (("input", given), ("output", produced)):
        if names.value not in span.attributes:
            contents = [
                (x["role"], x["content"])
                for x in listed(body, side)
                if isinstance(x.get("content"), str)
            ]
            moved_back |= _moved_back(contents, names, span.attributes, is_model=is_model)
    return changed(span, attributes={**moved_back, **span.attributes}) if moved_back else span


def _moved_back(
    contents: Sequence[tuple[str, str]], names: Names, attributes: Attributes, *, is_model: bool
) -> dict[str, Value]:
    whole = next(
        (
            at
            for at, (_, content) in enumerate(contents)
            if not is_model or content.startswith(("{", "["))
        ),
        None,
    )
    found: dict[str, Value] = {} if whole is None else {names.value: contents[whole][1]}
    if not is_model:
        return found
    at = 0
    for role, content in (x for place, x in enumerate(contents) if place != whole):
        while (
            attributes.get(names.role.format(at), role) != role and at < len(contents) + _MAX_BARE
        ):
            at += 1  # a message without content, as one that only requests tools
        found |= {names.role.format(at): role, names.content.format(at): content}
        at += 1
    return found


def listed(body: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """The messages on one side of a record's body, `input` or `output`."""
    listed = as_object(body.get(side)).get("messages")
    return [x for x in objects(listed) if x.get("role") in _ORDER]


def _event(message: dict[str, Any], attribute: str, name: str) -> tuple[str, Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, dict):
        return name, with_blocks(content)
    if isinstance(content, str) and message["role"] == "system":
        return _DETAILS, {"gen_ai.system_instructions": content}
    if isinstance(content, str) and _are_messages(structure(content).value):
        return _DETAILS, {attribute: content}
    return name, with_blocks({"message" if name == _CHOICE else "content": content})


def _are_messages(value: Any) -> bool:
    found = objects(value)
    return bool(found) and len(found) == len(value) and all("role" in x for x in found)


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
    session = log.attributes.get("session.id")
    named: Attributes = {} if session is None else {"session.id": session}
    return changed(span, attributes={**named, **attributes})


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
            inside[parent].append(changed(span, parent_span_id=made[parent].span_id))
    for span_id in outer:
        yield _begun(made[span_id], inside[span_id])
        yield from inside[span_id]


def _begun(span: Span, inside: Iterable[Span]) -> Span:
    """`span`, with the beginning of the first span inside it."""
    spans = list(inside)
    first = min([span.start_ns, *(x.start_ns for x in spans)])
    return changed(around(span, (x.end_ns for x in spans)), start_ns=first)


def _given(body: Mapping[str, Any]) -> str | None:
    """The user's messages in a record, as JSON; None where it has none."""
    questions = [x.get("content") for x in listed(body, "input") if x["role"] == "user"]
    return dumps(questions) if questions else None
