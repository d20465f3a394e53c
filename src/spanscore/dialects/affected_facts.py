"""Facts that depend on cut or dropped values.

In go the steps as their dialects read them, the spans, and their log records by span id; out come
the same steps, with the names of facts in `damaged`. Under an SDK whose limit is 20 characters, a
tool step with `result="It is raining in the"` comes back with `damaged={"result"}`; where a second
attribute of its span contains the whole text, with that text and nothing damaged.

How a fact is found that depends on an attribute: the span is read again without that attribute
(`Rereader`), and what is then different depended on it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spanscore.dialects.forms.truncation import mended
from spanscore.dialects.losses import (
    MASK,
    Limits,
    Part,
    RecordedLosses,
    Rereader,
    attributes_beside,
    is_masked,
    is_of_infrastructure,
    is_of_length,
    lost,
    strings,
)
from spanscore.model.span import LogRecord, Span, Value, changed
from spanscore.model.step import Message, MessageFact, Step, StepFact

# of a trace whose cut attributes are looked at one by one: of the others all facts count as damaged
_MAX_SPANS = 200
_MAX_PARTS = 8  # of a span, likewise

_FACTS: dict[str, StepFact] = {
    "input": "input",
    "input_text": "input",
    "output": "output",
    "output_text": "output",
    "output_json": "output",
    "system": "system",
    "tools": "tools",
    "arguments": "arguments",
    "positional": "arguments",
    "result": "result",
    "plan": "plan",
    "expected": "expected",
}
_CARRIES: dict[str, tuple[StepFact, ...]] = {
    "model": ("input", "output", "system", "tools", "tokens"),
    "agent": ("input", "output", "system", "tools", "tokens"),
    "workflow": ("input", "output", "tokens"),
    "tool": ("arguments", "result", "tools"),
}
"""The facts that a span of each kind may contain, if nothing was dropped."""


_ALL_OF_MESSAGE: frozenset[MessageFact] = frozenset({"text", "calls", "results"})


class _Loss(NamedTuple):
    """What a span lost: the parts that were cut at a limit, each with its text, and what was
    dropped.

    `poor` are texts in its parts that contain less than they did: masks, and texts that were cut
    inside an array or map.
    """

    cut: Sequence[tuple[Part, str]]
    poor: Sequence[tuple[Part, str]]
    dropped: RecordedLosses


def with_damaged_facts(
    steps: Sequence[Step],
    spans: Sequence[Span],
    logs: Mapping[str, Sequence[LogRecord]],
    known: Limits,
    rereader: Rereader,
) -> list[Step]:
    """The steps, with the facts that depend on something cut or dropped named as damaged.

    `known` are the limits at which values were cut. A fact that another attribute of the span
    contains whole is read from there, by `rereader`.
    """
    is_genai = any(x.dialect for x in steps)
    looked_at = 0
    found: list[Step] = []
    for step in _with_unread(steps, spans, logs) if is_genai else steps:
        marked_step, loss = step, _loss(step, logs.get(step.span.span_id, ()), rereader, known)
        if is_genai and _may_have_been_genai(step, loss):
            # what it stood for may have been dropped
            marked_step = _with(step, ("input", "output"))
        elif _is_any(loss):
            looked_at += 1
            if looked_at > _MAX_SPANS or len(loss.cut) + len(loss.poor) > _MAX_PARTS:
                marked_step = _all_damaged(marked_step)
            else:
                marked_step = _with_losses(marked_step, loss, rereader)
        found.append(marked_step)
    return found


def _may_have_been_genai(step: Step, loss: _Loss) -> bool:
    return step.kind == "other" and any(loss.dropped) and not _is_infrastructure(step)


def _is_any(loss: _Loss) -> bool:
    return any(loss.dropped) or bool(loss.cut) or bool(loss.poor)


def _with_unread(
    steps: Sequence[Step], spans: Sequence[Span], logs: Mapping[str, Sequence[LogRecord]]
) -> Sequence[Step]:
    """The steps, and beside them the spans that no dialect reads and that lost something."""
    read = {step.span.span_id for step in steps}
    lacking: list[Step] = []
    for span in spans:
        if span.span_id in read or not any(lost(span, logs.get(span.span_id, ()))):
            continue
        unread = Step(span=span, dialect="", kind="other")
        if not _is_infrastructure(unread):
            lacking.append(unread)
    if not lacking:
        return steps
    return sorted([*steps, *lacking], key=lambda step: (step.span.start_ns, step.span.span_id))


def _loss(step: Step, logs: Sequence[LogRecord], rereader: Rereader, known: Limits) -> _Loss:
    dropped = lost(step.span, logs)
    cut = _cut(step, logs, rereader, known) if known else []
    nested = [
        (part, x)
        for part, x in cut
        if _is_nested(attributes_beside(part, step.span, logs).get(part.key))
    ]
    parts = rereader.parts(step) if dropped.masked else ()
    masked = [(part, x) for part, x in parts if is_masked(part, x, step.span, logs)]
    if any(x == MASK for _, x in masked):  # as good as dropped
        dropped = dropped._replace(attributes=True)
    hiding = [(part, MASK if MASK in x else x) for part, x in masked]
    return _Loss([x for x in cut if x not in nested], nested + hiding, dropped)


def _is_nested(value: Value) -> bool:
    """Whether messages stand in an array or map as such, and not as JSON."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(x, dict) for x in value)
    )


def _is_infrastructure(step: Step) -> bool:
    """Whether the attributes that are left of an unread span show that it was no work of an
    agent.
    """
    return not step.dialect and any(map(is_of_infrastructure, step.span.attributes))


def _with(step: Step, facts: Iterable[StepFact]) -> Step:
    return changed(step, damaged=step.damaged.union(facts))


def _all_damaged(step: Step) -> Step:
    """The step with all facts damaged that a span of its kind may contain; not tokens that are
    recorded, since numbers are never cut.
    """
    facts = set(_CARRIES.get(step.kind, ()))
    if _is_recorded(step, "tokens"):
        facts.discard("tokens")
    return _with(step, facts)


def _cut(
    step: Step, logs: Sequence[LogRecord], rereader: Rereader, known: Limits
) -> list[tuple[Part, str]]:
    """The parts of a step's span that were cut at its service's limits."""
    service = step.span.resource.service_name
    return [
        (part, x)
        for part, text in rereader.parts(step)
        for x in _pieces(step, part, text, logs)
        if is_of_length(x, known.get((service, part.kind)))
    ]


_WITH_KEYS = frozenset({"attribute", "event", "log"})
_RAW = ("log", "body")
"""Of an attribute: a raw request or response, of which its reader knows what is whole."""


def _pieces(step: Step, part: Part, text: str, logs: Sequence[LogRecord]) -> Iterable[str]:
    """The texts that a limit cuts one by one: those of an array or map, else the value itself."""
    if part.kind in {"field", "body"} or (part.kind, part.key) == _RAW:
        return ()
    value = attributes_beside(part, step.span, logs).get(part.key)
    return strings(value) if isinstance(value, list | dict) else (text,)


def _with_losses(step: Step, loss: _Loss, rereader: Rereader) -> Step:
    """The step of a span that lost something, with each fact damaged that the loss may concern."""
    facts: set[StepFact] = set()
    for part, text in loss.poor:
        step, depending = _with_poor_text(step, part, text, rereader)
        facts |= depending
    step, depending = _completed(step, loss.cut, rereader)
    facts |= depending
    is_dropped = loss.dropped.attributes or loss.dropped.events
    # what comes after the cut may have contained any of them
    if is_dropped or any(text[:1] == "{" for _, text in loss.cut):
        facts.update(fact for fact in _CARRIES.get(step.kind, ()) if not _is_recorded(step, fact))
    if is_dropped:
        facts.update(_of_lists(step, rereader, loss.dropped))
        step = _without_calls(step)
    step = changed(
        step, input=_with_empty_damaged(step.input), output=_with_empty_damaged(step.output)
    )
    return _with(step, facts)


def _completed(
    step: Step, cut: Sequence[tuple[Part, str]], rereader: Rereader
) -> tuple[Step, set[StepFact]]:
    """The step, completed from what is whole in place of the parts that were cut, and the facts
    that depend on those parts.
    """
    facts: set[StepFact] = set()
    for part, text in cut:
        other = rereader.without(step, part)
        step, depending = _completed_by(step, other)
        facts |= depending
        if other.kind == step.kind:
            facts |= _unreadable(step, part, text, rereader)
        else:
            facts |= _facts_with(step, text)
    if len(cut) > 1:  # what several contain may be cut in each
        step, depending = _completed_by(step, rereader.without(step, *(part for part, _ in cut)))
        facts |= depending
    return step, facts


def _without_calls(step: Step) -> Step:
    """A model's step that lost something: its tool calls may have been in a part other than the
    text that is left.
    """
    if (
        step.kind != "model"
        or not step.output
        or step.finish_reasons
        or any(x.calls for x in step.output)
    ):
        return step
    return changed(
        step, output=tuple(changed(x, damaged=x.damaged | {"calls"}) for x in step.output)
    )


def _with_empty_damaged(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages of a span that lost something, with empty messages named as damaged."""
    if messages is None:
        return None
    return tuple(
        changed(message, damaged=_ALL_OF_MESSAGE) if _is_empty(message) else message
        for message in messages
    )


def _is_empty(message: Message) -> bool:
    return not (message.text or message.reasoning or message.calls or message.results)


def _is_recorded(step: Step, fact: StepFact) -> bool:
    if fact == "result":
        return step.has_result
    if fact == "tokens":  # numbers are never cut
        return step.input_tokens is not None and step.output_tokens is not None
    if fact == "arguments":
        return step.arguments is not None or bool(step.positional)
    if fact == "tools":
        return bool(step.tools) and all(
            None not in (x.description, x.parameters) for x in step.tools or ()
        )
    if fact == "system" and any(x.role == "system" for x in step.input or ()):
        return True
    return any(getattr(step, field) not in (None, ()) for field, of in _FACTS.items() if of == fact)


def _completed_by(step: Step, other: Step, *, is_whole: bool = True) -> tuple[Step, set[StepFact]]:
    """The step, completed from other attributes of its span in place of what was cut, and the facts
    that depend on what was cut.

    `other` is the step as it is read without what was cut; `is_whole`: what it has is not cut.
    """
    facts: set[StepFact] = set()
    if other.kind != step.kind:
        return step, facts
    for field, fact in _FACTS.items():
        value, left = getattr(step, field), getattr(other, field)
        if value == left:
            continue
        if _are_same_messages(value, left):
            step = _changed(step, field, _differing(value, left))
        elif is_whole and left is not None and not isinstance(left, tuple):
            step = _changed(step, field, left)  # another attribute contains it whole
        else:
            facts.add(fact)
    return step, facts


def _facts_with(step: Step, text: str) -> set[StepFact]:
    """The facts that contain a text of a part, where the span would be of another kind without that
    part.
    """
    return {fact for field, fact in _FACTS.items() if text in _texts(getattr(step, field))}


def _texts(value: Any) -> Sequence[str | None]:
    """The texts of messages, or the text that the value is."""
    if _are_messages(value):
        return [message.text for message in value]
    return (value,) if isinstance(value, str) else ()


def _unreadable(step: Step, part: Part, text: str, rereader: Rereader) -> set[StepFact]:
    """The facts that a part would have contained if its JSON had not ended too early."""
    closed = mended(text)
    if closed is None:
        return set()
    other = rereader.with_text(step, (part,), text, closed)
    return set(_differing_facts(step, other))


def _differing_facts(step: Step, other: Step) -> Iterator[StepFact]:
    """The facts that a step of the same kind records otherwise."""
    for field, fact in _FACTS.items():
        if other.kind == step.kind and getattr(other, field) != getattr(step, field):
            yield fact


def _with_poor_text(
    step: Step, part: Part, text: str, rereader: Rereader
) -> tuple[Step, set[StepFact]]:
    """The step, with damaged messages where they contain a text of a part, and with the other facts
    that depend on it.
    """
    other = rereader.with_text(step, (part,), text, "")
    if other.kind != step.kind:
        return step, _facts_with(step, text)
    return _completed_by(step, other, is_whole=False)


def _are_same_messages(value: Any, left: Any) -> bool:
    """Whether both are messages, and as many, so that they can be compared one by one."""
    return _are_messages(value) and _are_messages(left) and len(value) == len(left)


def _are_messages(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(x, Message) for x in value)


def _differing(messages: Sequence[Message], left: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, with those damaged that are read differently without the part that was cut."""
    return tuple(
        _differing_message(x, y) if x != y else x for x, y in zip(messages, left, strict=True)
    )


def _differing_message(message: Message, left: Message) -> Message:
    parts: set[MessageFact] = set(message.damaged)
    pairs: tuple[tuple[MessageFact, object, object], ...] = (
        ("text", message.text, left.text),
        ("calls", message.calls, left.calls),
        ("results", message.results, left.results),
    )
    return changed(
        message, damaged=frozenset(parts.union(name for name, one, other in pairs if one != other))
    )


def _of_lists(step: Step, rereader: Rereader, dropped: RecordedLosses) -> Iterator[StepFact]:
    """The facts that are read from attributes with indices, or from events, some of which may have
    been dropped.
    """
    lists: defaultdict[tuple[str, int, str], list[Part]] = defaultdict(list)
    for part, _ in rereader.parts(step):
        head, index, _rest = _split(part.key)
        if part.kind in _WITH_KEYS and index and dropped.attributes:
            lists[part.kind, part.at, head].append(part)
        elif part.kind == "event" and dropped.events:
            lists["event", -1, ""].append(part)
    for parts in list(lists.values())[:_MAX_PARTS]:
        yield from _differing_facts(step, rereader.without(step, *parts))


def _split(key: str) -> tuple[str, str, str]:
    """A key with an index at that index: `llm.tools`, `0`, `tool.name`; without one the index is
    "".
    """
    parts = key.split(".")
    for at, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[:at]), part, ".".join(parts[at + 1 :])
    return key, "", ""


def _changed(step: Step, field: str, value: Any) -> Step:
    return changed(step, **{field: value})
