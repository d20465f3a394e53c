"""Appearances of one tool call, paired with results."""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from spanscore.model.json import Json
from spanscore.model.span import record
from spanscore.model.step import Message, Step, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.turns.basis.conversation import is_item

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
