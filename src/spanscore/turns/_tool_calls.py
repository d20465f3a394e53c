"""Rebuild the tool calls of a turn: a model's request, the tool's span and the next model call's input are one call."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spanscore.model.json import Json
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall, Tool, ToolCall
from spanscore.turns._errors import inferred_error


@dataclass(slots=True)
class _Call:
    """A tool call while its facts come together. `order` sorts calls by when they were asked for."""

    order: tuple[int, int, int]
    name: str
    call_id: str | None = None
    arguments: Json = None
    agent: str | None = None
    span: Step | None = None
    told: ToolResult | None = None


@dataclass(slots=True)
class Tail:
    """What one model call was given of the present turn: the messages after the question."""

    step: Step
    messages: Sequence[Message]
    agent: str | None


@dataclass(slots=True)
class Sources:
    """Where tool calls show: in what models put out, in spans, and in what models were given next; by time."""

    requests: list[tuple[Step, str | None, Sequence[Message]]] = field(default_factory=list)
    spans: list[tuple[Step, str | None]] = field(default_factory=list)
    tails: list[Tail] = field(default_factory=list)


def rebuild(sources: Sources, tools: Sequence[Tool]) -> tuple[ToolCall, ...]:
    """The tool calls of a turn in the order in which they were asked for, each once."""
    unreliable = _repeated_ids(sources)
    calls = _requested(sources, unreliable)
    _add_spans(calls, sources, unreliable, tools)
    for number, tail in enumerate(reversed(sources.tails)):
        if number and all(x.told is not None or (x.span is not None and x.span.has_result) for x in calls):
            break  # the last input holds those before it: what it does not add, they hardly will
        _add_tail(calls, tail, unreliable)
    return tuple(_finished(x) for x in sorted(calls, key=lambda x: x.order))


def _repeated_ids(sources: Sources) -> set[str]:
    """Ids that name two calls, as of emitters that number calls anew in each answer: they identify nothing."""
    asked = Counter(c.call_id for _, _, output in sources.requests for m in output for c in m.calls if c.call_id)
    ran = Counter(step.call_id for step, _ in sources.spans if step.call_id)
    return {x for counted in (asked, ran) for x, n in counted.items() if n > 1}


def _trusted(call_id: str | None, unreliable: set[str]) -> str | None:
    return None if call_id in unreliable else call_id


def _requested(sources: Sources, unreliable: set[str]) -> list[_Call]:
    found = []
    for number, (step, agent, output) in enumerate(sources.requests):
        asked_ns = max(step.span.start_ns, step.span.end_ns)
        calls = [c for m in output for c in m.calls]
        for position, call in enumerate(calls):
            order = (asked_ns, number, position)
            found.append(_Call(order, call.name, _trusted(call.call_id, unreliable), call.arguments, agent))
    return found


class _Ran(NamedTuple):
    """A tool's span, with the id that identifies it and its arguments by name."""

    step: Step
    agent: str | None
    call_id: str | None
    arguments: Json


def _add_spans(calls: list[_Call], sources: Sources, unreliable: set[str], tools: Sequence[Tool]) -> None:
    """Give each tool span to the request it answers: by id, else by name and arguments, else by name; in order."""
    schemas = {x.name: x.parameters for x in tools}
    pending = [
        _Ran(step, agent, _trusted(step.call_id, unreliable), _named_arguments(step, schemas))
        for step, agent in sources.spans
        if step.tool_name
    ]
    by_id = {x.call_id: x for x in calls if x.call_id}
    pending = [x for x in pending if not _attach(by_id.get(x.call_id or ""), x)]
    for exact in (True, False):
        waiting: defaultdict[str, list[_Call]] = defaultdict(list)
        for call in calls if pending else ():
            if call.span is None:
                waiting[call.name].append(call)
        pending = [x for x in pending if not _attach(_pick(waiting, x, by_id, exact=exact), x)]
    for number, ran in enumerate(pending):
        order = (ran.step.span.start_ns, len(calls), number)
        calls.append(_Call(order, ran.step.tool_name or "", ran.call_id, ran.arguments, ran.agent, span=ran.step))


def _pick(waiting: Mapping[str, list[_Call]], ran: _Ran, by_id: Mapping[str, _Call], *, exact: bool) -> _Call | None:
    """Take the first call that may be the same from `waiting`.

    Ids that both sides know and that differ do not forbid it, as long as the span's id is nobody's: a model's API and a
    framework may each have ids of their own.
    """
    if ran.call_id in by_id:
        return None
    calls = waiting.get(ran.step.tool_name or "", [])
    for at, call in enumerate(calls):
        if not exact or call.arguments == ran.arguments:
            return calls.pop(at)
    return None


def _attach(call: _Call | None, ran: _Ran) -> bool:
    """Add what a span tells to its call; False where there is none, or where it has its span already."""
    if call is None or call.span is not None:
        return False
    call.span = ran.step
    call.agent = ran.agent or call.agent
    call.call_id = call.call_id or ran.call_id
    if not isinstance(call.arguments, dict) and ran.arguments is not None:
        call.arguments = ran.arguments
    return True


def _named_arguments(step: Step, schemas: dict[str, Any]) -> Json:
    """A span's arguments; values recorded without names get those of the tool's schema, in its order.

    Without a schema they stay as they are: the value, or a list of them.
    """
    if not step.positional:
        return step.arguments
    given = step.arguments if isinstance(step.arguments, dict) else {}
    values: list[Json] = [x for x in step.positional if x is not None]
    schema = schemas.get(step.tool_name or "")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = [x for x in properties if x not in given] if isinstance(properties, dict) else []
    if len(values) == 1 and isinstance(values[0], dict) and len(names) != 1 and not given:
        return values[0]
    if len(names) < len(values):
        return given or (values[0] if len(values) == 1 else values)
    return {**dict(zip(names, values, strict=False)), **given}


def _add_tail(calls: list[_Call], tail: Tail, unreliable: set[str]) -> None:
    """Complete the calls by what a model call was told of them; a call that shows only there is added."""
    pairs, loose = _pairs(tail.messages, unreliable)
    if not pairs and not loose:
        return
    by_id = {x.call_id: x for x in calls if x.call_id}
    waiting: defaultdict[str, list[_Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda x: x.order):
        waiting[call.name].append(call)
    taken = set[int]()
    for position, (asked, told) in enumerate(pairs):
        known = by_id.get(asked.call_id) if asked.call_id else None
        found = known or _in_order(waiting[asked.name], asked.arguments, taken)
        call = found or _Call((tail.step.span.start_ns, -1, position), asked.name, asked.call_id, agent=tail.agent)
        if found is None:
            calls.append(call)
        taken.add(id(call))
        if call.arguments is None:
            call.arguments = asked.arguments
        call.call_id = call.call_id or asked.call_id
        call.told = call.told or told
    for result in loose:
        answered = by_id.get(result.call_id or "")
        if answered is not None:
            answered.told = answered.told or result


def _in_order(waiting: list[_Call], arguments: Json, taken: set[int]) -> _Call | None:
    """The first call with these arguments, else the first whose arguments are not known, that is not taken yet."""
    waiting[:] = [x for x in waiting if id(x) not in taken]
    same = next((x for x in waiting if x.arguments == arguments), None)
    return same or next((x for x in waiting if x.arguments is None), None)


def _pairs(
    messages: Iterable[Message], unreliable: set[str]
) -> tuple[list[tuple[RequestedCall, ToolResult | None]], list[ToolResult]]:
    """Each call in a conversation with its result, by id, else in order; and the results that answer no call there."""
    asked: list[RequestedCall] = []
    results: list[ToolResult] = []
    for message in messages:
        asked += message.calls
        results += message.results
    ids = Counter(x.call_id for x in asked)
    sure = {x for x, n in ids.items() if x is not None and n == 1 and x not in unreliable}
    by_id: dict[str | None, ToolResult] = {x.call_id: x for x in results if x.call_id in sure}
    loose = [x for x in results if by_id.get(x.call_id) is not x]
    pairs: list[tuple[RequestedCall, ToolResult | None]] = []
    for call in asked:
        told = by_id.get(call.call_id)
        if told is None and loose:
            told = loose.pop(0)
        named = call if call.call_id in sure else RequestedCall(None, call.name, call.arguments)
        pairs.append((named, told))
    return pairs, loose


def _finished(call: _Call) -> ToolCall:
    span, told = call.span, call.told
    result: Json = None
    if span is not None and span.has_result:
        result = span.result
    elif told is not None:
        result = told.value
    error = (span.error if span is not None else None) or (told.error if told is not None else None)
    inferred = inferred_error(result) if error is None else None
    return ToolCall(
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        result=result,
        error=error or inferred,
        span_id=None if span is None else span.span.span_id,
        started_ns=None if span is None else span.span.start_ns,
        error_inferred=inferred is not None,
        agent=call.agent,
    )
