"""Rebuild the tool calls of a turn: a model's request, the tool's span and the next model call's input are one call."""

from bisect import insort_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from spanscore.model.json import Json
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall, Tool, ToolCall
from spanscore.turns._errors import inferred_error

_Kind: TypeAlias = tuple[str, Hashable]
"""What calls have in common that may be the same: the name, and the arguments as a key, None where not known."""

_MAX_DEPTH = 50


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
    gathered = _Gathered(calls)
    for number, tail in enumerate(reversed(sources.tails)):
        if number and not gathered.unanswered:
            break  # the last input holds those before it: what it does not add, they hardly will
        _add_tail(gathered, tail, unreliable)
    return tuple(_finished(x) for x in sorted(gathered.calls, key=lambda x: x.order))


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
        waiting: defaultdict[_Kind, list[_Call]] = defaultdict(list)
        for call in calls if pending else ():
            if call.span is None:
                waiting[_kind(call.name, call.arguments if exact else None)].append(call)
        pending = [x for x in pending if not _attach(_pick(waiting, x, by_id, exact=exact), x)]
    for number, ran in enumerate(pending):
        order = (ran.step.span.start_ns, len(calls), number)
        calls.append(_Call(order, ran.step.tool_name or "", ran.call_id, ran.arguments, ran.agent, span=ran.step))


def _pick(waiting: Mapping[_Kind, list[_Call]], ran: _Ran, by_id: Mapping[str, _Call], *, exact: bool) -> _Call | None:
    """Take the first call that may be the same from `waiting`.

    Ids that both sides know and that differ do not forbid it, as long as the span's id is nobody's: a model's API and a
    framework may each have ids of their own.
    """
    if ran.call_id in by_id:
        return None
    calls = waiting.get(_kind(ran.step.tool_name or "", ran.arguments if exact else None))
    return calls.pop(0) if calls else None


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


class _Gathered:
    """The calls that are known, to be found by id, or by name and arguments in their order, however many there are."""

    def __init__(self, calls: list[_Call]) -> None:
        self.calls = calls
        self.by_id = {x.call_id: x for x in calls if x.call_id}
        self.unanswered = sum(not _has_result(x) for x in calls)
        self._alike: defaultdict[_Kind, list[_Call]] = defaultdict(list)
        for call in sorted(calls, key=_order):
            self._alike[_kind(call.name, call.arguments)].append(call)

    def first(self, asked: RequestedCall, taken: set[int], passed: Counter[_Kind]) -> _Call | None:
        """The first call with these arguments, else the first whose arguments are not known, that is not taken yet.

        `passed` counts, for each kind, the calls at the front that are known to be taken.
        """
        for kind in (_kind(asked.name, asked.arguments), (asked.name, None)):
            calls = self._alike.get(kind, [])
            while passed[kind] < len(calls):
                call = calls[passed[kind]]
                if kind[1] is None and call.arguments is not None:
                    del calls[passed[kind]]  # its arguments have become known
                elif id(call) in taken:
                    passed[kind] += 1
                else:
                    return call
        return None

    def add(self, call: _Call) -> None:
        """Take in a call that was not known."""
        self.calls.append(call)
        self.unanswered += 1
        self._file(call)

    def complete(self, call: _Call, asked: RequestedCall) -> None:
        """Add to a call what a request tells of it."""
        if call.arguments is None and asked.arguments is not None:
            call.arguments = asked.arguments
            self._file(call)
        if asked.call_id and not call.call_id:
            call.call_id = asked.call_id
            self.by_id[asked.call_id] = call

    def answer(self, call: _Call, told: ToolResult | None) -> None:
        """Add to a call what a model was told of it; the first answer counts."""
        if told is not None and call.told is None:
            self.unanswered -= not _has_result(call)
            call.told = told

    def _file(self, call: _Call) -> None:
        insort_right(self._alike[_kind(call.name, call.arguments)], call, key=_order)


def _order(call: _Call) -> tuple[int, int, int]:
    return call.order


def _has_result(call: _Call) -> bool:
    return call.told is not None or (call.span is not None and call.span.has_result)


def _kind(name: str, arguments: Json) -> _Kind:
    return name, _frozen(arguments, _MAX_DEPTH)


def _frozen(value: Json, depth: int) -> Hashable:
    """A key that is equal for equal values; what lies deep is compared as it is printed."""
    if isinstance(value, dict):
        if not depth:
            return repr(value)
        return "dict", frozenset((key, _frozen(x, depth - 1)) for key, x in value.items())
    if isinstance(value, list):
        return ("list", *(_frozen(x, depth - 1) for x in value)) if depth else repr(value)
    return value


def _add_tail(known: _Gathered, tail: Tail, unreliable: set[str]) -> None:
    """Complete the calls by what a model call was told of them; a call that shows only there is added."""
    pairs, loose = _pairs(tail.messages, unreliable)
    taken, passed = set[int](), Counter[_Kind]()
    for position, (asked, told) in enumerate(pairs):
        call = known.by_id.get(asked.call_id) if asked.call_id else None
        call = call or known.first(asked, taken, passed)
        if call is None:
            call = _Call((tail.step.span.start_ns, -1, position), asked.name, agent=tail.agent)
            known.add(call)
        taken.add(id(call))
        known.complete(call, asked)
        known.answer(call, told)
    for result in loose:
        answered = known.by_id.get(result.call_id or "")
        if answered is not None:
            known.answer(answered, result)


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
