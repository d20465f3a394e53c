"""The facts of one tool call."""

from bisect import insort_right
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from spanscore.model.json import Json
from spanscore.model.span import record
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall, ToolCall
from spanscore.turns.basis.conversation import is_item
from spanscore.turns.calls.tool_errors import error_in
from spanscore.turns.facts.source import FirstOf, Source, Sourced, first, is_damaged

Order: TypeAlias = tuple[int, int, int]
"""Sorts calls by when they were requested."""


@record()
class Requested:
    """A call in messages: as a model's output requests it, or as the input of the next model call
    repeats it.
    """

    step: Step
    agent: str | None
    call: RequestedCall
    damaged: bool


@record()
class Executed:
    """A tool's span, with the id that identifies it and its arguments by name."""

    step: Step
    agent: str | None
    call_id: str | None
    arguments: Json


@record()
class Returned:
    """A result of a tool in the input of a later model call."""

    step: Step
    result: ToolResult
    damaged: bool


@dataclass(slots=True)
class Call:
    """Where one tool call shows. Its name, id and arguments are what these places record so far."""

    order: Order
    name: str
    call_id: str | None = None
    arguments: Json = None
    request: Requested | None = None
    ran: Executed | None = None
    repeated: Requested | None = None
    returned: Returned | None = None
    is_guess: bool = False
    """Whether its span may be that of another call of the tool, alike as far as is recorded."""

    @property
    def has_stated_result(self) -> bool:
        """Whether a model was given the result under the call's id."""
        returned = self.returned
        if returned is None or not returned.result.shown or returned.damaged:
            return False
        return self.call_id is not None and returned.result.call_id == self.call_id

    @property
    def has_result(self) -> bool:
        """Whether any place records that the tool returned."""
        return self.returned is not None or (self.ran is not None and self.ran.step.has_result)


Answer: TypeAlias = tuple[ToolResult, Message]
"""A result, and the message that it is in."""


class Pair(NamedTuple):
    """A call, the message that it is in, and its result; an id that identifies nothing is left out
    of the call.
    """

    call: RequestedCall
    message: Message
    answer: Answer | None


def paired(messages: Sequence[Message], unreliable: set[str]) -> tuple[list[Pair], list[Answer]]:
    """Each call of a conversation with its result, and the results that answer no call there.

    An id that only one call has, and that is not among `unreliable`, identifies the call: its
    result is the one with this id, wherever it is. Other results are assigned in order, each to the
    first call before it without a result: to a call with its id if there is one, else to a call
    without an id that identifies it or that a result has. A result without an id is assigned among
    all of these, or among those of the tool that it names. The id of OpenAI's item identifies no
    call here, since results have the call's own id.
    """
    calls = [(call, message) for message in messages for call in message.calls]
    results = [(result, message) for message in messages for result in message.results]
    ids = [call.call_id for call, _ in calls if call.call_id is not None]
    sure = set(ids) - unreliable
    if len(sure) < len(ids):
        sure -= repeated(ids)
    if len(sure) == len(calls):  # as nearly always
        by_id = {answer[0].call_id: answer for answer in results}
        if len(by_id) == len(results) and by_id.keys() <= sure:
            return [Pair(call, message, by_id.get(call.call_id)) for call, message in calls], []
    places = _places_of(sure, results)
    ordered = _in_order(messages, set(ids), sure, places) if len(results) > len(places) else {}
    place_of_each = [
        places.get(call.call_id, ordered.get(number)) for number, (call, _) in enumerate(calls)
    ]
    return _by_place(calls, results, sure, place_of_each)


def _places_of(sure: set[str], results: Sequence[Answer]) -> dict[str | None, int]:
    """Where the results are that have an id which identifies their call."""
    return {result.call_id: at for at, (result, _) in enumerate(results) if result.call_id in sure}


def _by_place(
    calls: Sequence[tuple[RequestedCall, Message]],
    results: Sequence[Answer],
    sure: set[str],
    places: Sequence[int | None],
) -> tuple[list[Pair], list[Answer]]:
    """Each call with the result at its place, and the other results; `sure` are the ids that
    identify a call.
    """
    pairs: list[Pair] = []
    for (call, message), at in zip(calls, places, strict=True):
        answer = None if at is None else results[at]
        pairs.append(_pair(call, message, answer, is_sure=call.call_id in sure))
    answered = set(places)
    return pairs, [answer for at, answer in enumerate(results) if at not in answered]


def _pair(call: RequestedCall, message: Message, answer: Answer | None, *, is_sure: bool) -> Pair:
    """A call with its result, without its id unless that `is_sure` to identify it."""
    return Pair(
        call if is_sure else RequestedCall(None, call.name, call.arguments), message, answer
    )


def repeated(ids: Sequence[str]) -> set[str]:
    """The ids that occur twice."""
    return {x for x, n in Counter(ids).items() if n > 1} if len(set(ids)) < len(ids) else set()


class _Waiting:
    """The calls of a conversation that have no result so far, by number, the first one to be
    answered first.

    Each waits in several queues; in those that it was not taken from it is passed over.
    """

    def __init__(self) -> None:
        self._for_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._unnamed: deque[int] = deque()
        self._all: deque[int] = deque()
        self._of_tool: defaultdict[str, deque[int]] = defaultdict(deque)
        self._answered: set[int] = set()

    def add(
        self, number: int, name: str, identity: str | None, *, is_sure: bool, has_result: bool
    ) -> None:
        """A call of a tool with this id, which identifies it if `is_sure`; results have it if
        `has_result`.
        """
        self._all.append(number)
        self._of_tool[name].append(number)
        if has_result and identity is not None:
            self._for_id[identity].append(number)
        elif not is_sure or is_item(identity):
            self._unnamed.append(number)

    def take(self, result: ToolResult, *, is_named: bool, is_of_tool: bool) -> int | None:
        """The call of a result, which has an id that calls have if `is_named`, and names their tool
        if `is_of_tool`.
        """
        if result.call_id is None:
            queue = self._of_tool[result.name or ""] if is_of_tool else self._all
        else:
            queue = self._for_id[result.call_id] if is_named else self._unnamed
        while queue:
            number = queue.popleft()
            if number not in self._answered:
                self._answered.add(number)
                return number
        return None


def _in_order(
    messages: Sequence[Message], named: set[str], sure: set[str], places: dict[str | None, int]
) -> dict[int, int]:
    """The results that only their order gives to a call: the number of each by that of the call.

    `named` are the ids of the calls, `sure` those that identify one, `places` where the results of
    these are.
    """
    waiting = _Waiting()
    with_result = {x.call_id for message in messages for x in message.results}
    tools = {x.name for message in messages for x in message.calls}
    found: dict[int, int] = {}
    number = at = 0
    for message in messages:
        for call in message.calls:
            if call.call_id not in places:
                is_sure, has_result = call.call_id in sure, call.call_id in with_result
                waiting.add(number, call.name, call.call_id, is_sure=is_sure, has_result=has_result)
            number += 1
        for result in message.results:
            taken = None
            if result.call_id not in sure:
                taken = waiting.take(
                    result, is_named=result.call_id in named, is_of_tool=result.name in tools
                )
            if taken is not None:
                found[taken] = at
            at += 1
    return found


def side_by_side(answers: Sequence[Answer], calls: Sequence[Call]) -> Iterator[tuple[Answer, Call]]:
    """As many results as calls, which no id gives to each other: by the tools if all are named,
    else in order.
    """
    of_tool = defaultdict[str | None, deque[Call]](deque)
    for call in calls:
        of_tool[call.name].append(call)
    if Counter(x.name for x, _ in answers) != Counter(x.name for x in calls):
        yield from zip(answers, calls, strict=True)
        return
    for answer in answers:
        yield answer, of_tool[answer[0].name].popleft()


Kind: TypeAlias = tuple[str, Hashable]
"""The name of the tool, and the arguments as something hashable: None where they are not known."""

_MAX_DEPTH = 50
"""Levels of the arguments that are compared one by one; what lies deeper, as it is printed."""


def kind_of(name: str, arguments: Json) -> Kind:
    """The key that calls of this tool with these arguments have.

    >>> kind_of("stock", {"sku": "1", "at": "a"}) == kind_of("stock", {"at": "a", "sku": "1"})
    True
    """
    return name, _frozen(arguments, _MAX_DEPTH)


def kind_with(name: str, item: Hashable) -> Kind:
    """The key that calls of this tool have of which one argument is `item`, one of `items`."""
    return name, ("with", item)


def items(arguments: Json) -> frozenset[Hashable]:
    """The arguments one by one, as keys; none where they are no object."""
    found = arguments if isinstance(arguments, dict) else {}
    return frozenset((key, _frozen(x, _MAX_DEPTH)) for key, x in found.items())


def _frozen(value: Json, depth: int) -> Hashable:
    """A key that is equal for equal values; what lies deep is compared as it is printed."""
    if isinstance(value, dict):
        if not depth:
            return repr(value)
        return "dict", frozenset((key, _frozen(x, depth - 1)) for key, x in value.items())
    if isinstance(value, list):
        return ("list", *(_frozen(x, depth - 1) for x in value)) if depth else repr(value)
    return value


def finished(call: Call) -> tuple[ToolCall, bool]:
    """The call as its sources record it; and whether its arguments or result were cut or redacted
    in all of them.
    """
    plain = _plain_call(call)
    if plain is not None:
        return plain, False
    arguments, result, error, agent = (first(CALL_SOURCES[name], call) for name in _BUILT_FROM)
    span = None if call.ran is None else call.ran.step.span
    finished_call = ToolCall(
        call.call_id,
        call.name,
        _value(arguments),
        _value(result),
        _value(error),
        None if span is None else span.span_id,
        None if span is None else span.start_ns,
        error is not None and first(STATED_ERROR, call) is None,
        _value(agent),
        # of a damaged one, what is left is recorded
        returned=result is not None and not result.damaged,
        ended_ns=None if span is None else span.end_ns,
    )
    return finished_call, any(fact is not None and fact.damaged for fact in (arguments, result))


def _value(fact: Sourced | None) -> Any:
    return None if fact is None else fact.value


def _plain_call(call: Call) -> ToolCall | None:
    """The quick way for what nearly all calls are: a whole request, and a span with the result and
    no error.

    It gives what the sources in their order would, and takes a fifth of the time.
    """
    if not _is_plain(call) or call.request is None or call.ran is None:
        return None
    step = call.ran.step
    error = error_in(call.name, call.request.call.arguments, step.result)
    return ToolCall(
        call.call_id,
        call.name,
        call.request.call.arguments,
        step.result,
        error,
        step.span.span_id,
        step.span.start_ns,
        error is not None,
        call.ran.agent,
        returned=True,
        ended_ns=step.span.end_ns,
    )


def _is_plain(call: Call) -> bool:
    request, ran = call.request, call.ran
    if request is None or request.damaged or not isinstance(request.call.arguments, dict):
        return False
    if call.is_guess or ran is None or not ran.agent or ran.step.damaged or ran.step.error:
        return False
    if ran.step.result is None or not ran.step.has_result:
        return False
    return call.returned is None or not call.returned.result.error


def _requested_name(request: Requested | None) -> Sourced | None:
    return None if request is None else Sourced(request.step, "calls", request.call.name)


def _requested_id(request: Requested | None) -> Sourced | None:
    if request is None or not request.call.call_id:
        return None
    return Sourced(request.step, "calls", request.call.call_id)


def _id_in_result(call: Call) -> Sourced | None:
    """The id of the call that a result answers, where the request has that of OpenAI's item, which
    is another.
    """
    returned = call.returned
    if returned is None or returned.result.call_id is None:
        return None
    if not is_item(call.call_id) or is_item(returned.result.call_id):
        return None
    return Sourced(returned.step, "results", returned.result.call_id)


def _requested_arguments(request: Requested | None) -> Sourced | None:
    if request is None or (request.call.arguments is None and not request.damaged):
        return None
    return Sourced(request.step, "calls", request.call.arguments, request.damaged)


def _object(found: Sourced | None) -> Sourced | None:
    return found if found is not None and isinstance(found.value, dict) else None


def _name_in_span(call: Call) -> Sourced | None:
    return (
        None if call.ran is None else Sourced(call.ran.step, "tool_name", call.ran.step.tool_name)
    )


def _id_in_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.call_id:
        return None
    return Sourced(call.ran.step, "call_id", call.ran.call_id)


def _arguments_in_span(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    damaged = is_damaged(call.ran.step, "arguments")
    if call.ran.arguments is None and not damaged:
        return None
    return Sourced(call.ran.step, "arguments", call.ran.arguments, damaged)


def _result_in_span(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    step, damaged = call.ran.step, is_damaged(call.ran.step, "result")
    return Sourced(step, "result", step.result, damaged) if step.has_result or damaged else None


def _returned_result(call: Call) -> Sourced | None:
    returned = call.returned
    if returned is None or not returned.result.shown:
        return None
    return Sourced(returned.step, "results", returned.result.value, returned.damaged)


def _returned_where_guessed(call: Call) -> Sourced | None:
    """The result that the model was given under the call's id, where the span may be another
    call's.
    """
    return _returned_result(call) if call.is_guess and call.has_stated_result else None


def _returned_where_null(call: Call) -> Sourced | None:
    """The result that the model was given, where it is false, 0 or empty: some emitters write null
    for all that is.
    """
    if call.returned is None or call.ran is None or call.ran.step.result is not None:
        return None
    value = call.returned.result.value
    return _returned_result(call) if value is not None and (not value or value == "False") else None


def _error_in_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.step.error or (call.is_guess and call.has_stated_result):
        return None
    return Sourced(call.ran.step, "error", call.ran.step.error)


def _returned_error(call: Call) -> Sourced | None:
    returned = call.returned
    if returned is None or not returned.result.error:
        return None
    return Sourced(returned.step, "results", returned.result.error)


def _inferred_error(call: Call) -> Sourced | None:
    found = first(CALL_SOURCES["result"], call)
    if found is None:
        return None
    text = error_in(call.name, _value(first(CALL_SOURCES["arguments"], call)), found.value)
    return None if text is None else Sourced(found.step, found.field, text)


def _agent_of_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.agent:
        return None
    return Sourced(call.ran.step, "agent_name", call.ran.agent)


def _requesting_agent(request: Requested | None) -> Sourced | None:
    if request is None or not request.agent:
        return None
    return Sourced(request.step, "agent_name", request.agent)


_BUILT_FROM = ("arguments", "result", "error", "agent")

CALL_SOURCES: dict[str, FirstOf[Call]] = {
    "name": (
        Source("the model's request", lambda call: _requested_name(call.request)),
        Source("the tool's span", _name_in_span),
        Source("the next model call's input", lambda call: _requested_name(call.repeated)),
    ),
    "call_id": (
        Source(
            "the result that the next model call was given, where the request has an id of its own",
            _id_in_result,
        ),
        Source("the model's request", lambda call: _requested_id(call.request)),
        Source("the tool's span", _id_in_span),
        Source("the next model call's input", lambda call: _requested_id(call.repeated)),
    ),
    "arguments": (
        Source(
            "the model's request, where they are an object",
            lambda call: _object(_requested_arguments(call.request)),
        ),
        Source("the tool's span", _arguments_in_span),
        Source(
            "the model's request, whatever they are",
            lambda call: _requested_arguments(call.request),
        ),
        Source("the next model call's input", lambda call: _requested_arguments(call.repeated)),
    ),
    "result": (
        Source(
            "the next model call's input, by the call's id, where several spans may be this call's",
            _returned_where_guessed,
        ),
        Source(
            "the next model call's input, where that is false, 0 or empty and the tool's span null",
            _returned_where_null,
        ),
        Source("the tool's span", _result_in_span),
        Source("the next model call's input", _returned_result),
    ),
    "error": (
        Source("the tool's span, by its status", _error_in_span),
        Source("the next model call's input, where the message is marked as one", _returned_error),
        Source("inferred from the result", _inferred_error),
    ),
    "agent": (
        Source(
            "the agent around the tool's span, unless the model call that requested it names one,"
            " or one inside that",
            _agent_of_span,
        ),
        Source("the agent whose model requested it", lambda call: _requesting_agent(call.request)),
        Source(
            "the agent whose model must have requested it, since a later model call's"
            " input repeats the request",
            lambda call: _requesting_agent(call.repeated),
        ),
    ),
}
"""For each fact of a tool call its sources: the first that records the fact counts."""

STATED_ERROR = CALL_SOURCES["error"][:2]
"""Where an error is stated, and not inferred."""


def is_settled(call: Call) -> bool:
    """Whether no other place can change its id and arguments: the request records both."""
    request = call.request
    return (
        request is not None
        and not request.damaged
        and request.call.call_id is not None
        and isinstance(request.call.arguments, dict)
    )


def settle(call: Call) -> None:
    """Take its id and arguments from the first of the places known by now that records them."""
    for name in ("call_id", "arguments"):
        found = first(CALL_SOURCES[name], call)
        setattr(call, name, None if found is None else found.value)


Passed: TypeAlias = defaultdict[Kind, int]
"""For each kind, how many calls at the front of a list are known to be taken."""

_MAX_WITH_ARGUMENT = 100
"""Calls that are compared where many have an argument in common."""


class KnownCalls:
    """The calls that are known, to be found by id, or by name and arguments in their order, however
    many there are.
    """

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.by_id = {x.call_id: x for x in calls if x.call_id}
        self.unanswered = sum(not x.has_result for x in calls)
        self._alike: defaultdict[Kind, list[Call]] | None = None  # mostly ids are enough
        self._ran_with: defaultdict[Kind, list[Call]] | None = None

    def first(self, request: RequestedCall, taken: set[int], passed: Passed) -> Call | None:
        """The first call with these arguments, else the first whose arguments are not known, that
        is not taken yet.

        `passed` counts, for each kind, the calls at the front that are known to be taken.
        """
        for kind in (kind_of(request.name, request.arguments), (request.name, None)):
            calls = self._filed().get(kind, [])
            while passed[kind] < len(calls):
                call = calls[passed[kind]]
                if kind[1] is None and call.arguments is not None:
                    del calls[passed[kind]]  # its arguments have become known
                elif id(call) in taken:
                    passed[kind] += 1
                else:
                    return call
        return None

    def fuller(self, request: RequestedCall, taken: set[int], passed: Passed) -> Call | None:
        """The first call that only its span records, not taken yet, with these arguments and more.

        A tool's span may have the defaults of what the model left out. Such a call is not the one
        that is looked for where their ids differ. `passed` counts as in `first`.
        """
        wanted = items(request.arguments)
        kinds = [kind_with(request.name, x) for x in wanted]
        ran_with = self._filed_by_argument() if kinds else {}
        kind = min(kinds, key=lambda x: len(ran_with.get(x, ())), default=None)
        if kind is None or kind not in ran_with:
            return None
        calls = ran_with[kind]
        while passed[kind] < len(calls) and id(calls[passed[kind]]) in taken:
            passed[kind] += 1
        near = calls[passed[kind] : passed[kind] + _MAX_WITH_ARGUMENT]
        possible = (x for x in near if id(x) not in taken and not (request.call_id and x.call_id))
        return next((x for x in possible if wanted < items(x.arguments)), None)

    def add(self, call: Call) -> None:
        """Take in a call that was not known."""
        self.calls.append(call)
        self.unanswered += 1
        self._file(call)

    def complete(self, call: Call, repeated: Requested) -> None:
        """Add to a call what the input of a model call repeats of it."""
        call.repeated = repeated
        if is_settled(call):
            return
        before = call.call_id, call.arguments
        settle(call)
        if call.call_id is not None and before[0] is None:
            self.by_id[call.call_id] = call
        if call.arguments is not before[1]:
            self._file(call)

    def answer(self, call: Call, returned: Returned) -> None:
        """Add to a call the first result of it that a model was given."""
        if call.returned is not None:
            return
        if not call.has_result:
            self.unanswered -= 1
        call.returned = returned
        if is_item(call.call_id):
            settle(call)

    def _filed(self) -> defaultdict[Kind, list[Call]]:
        """The calls by what they have in common that may be the same, each list in their order."""
        if self._alike is None:
            self._alike = defaultdict(list)
            for call in sorted(self.calls, key=order_of):
                self._alike[kind_of(call.name, call.arguments)].append(call)
        return self._alike

    def _filed_by_argument(self) -> defaultdict[Kind, list[Call]]:
        """The calls that only spans record, by each of their arguments, each list in their
        order.
        """
        if self._ran_with is None:
            self._ran_with = defaultdict(list)
            for call in sorted((x for x in self.calls if x.ran and not x.request), key=order_of):
                for item in items(call.arguments):
                    self._ran_with[kind_with(call.name, item)].append(call)
        return self._ran_with

    def _file(self, call: Call) -> None:
        if self._alike is not None:
            insort_right(self._alike[kind_of(call.name, call.arguments)], call, key=order_of)


def order_of(call: Call) -> Order:
    """Sorts calls by when they were requested."""
    return call.order
