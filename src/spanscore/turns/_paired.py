"""Pair the calls of a conversation with their results, of which either may have no id, or one that occurs twice."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.turns._call_sources import is_item

Answer: TypeAlias = tuple[ToolResult, Message]
"""A result, and the message that it is in."""


class Pair(NamedTuple):
    """A call, the message that it is in, and its result; an id that identifies nothing is left out of the call."""

    call: RequestedCall
    message: Message
    answer: Answer | None


def paired(messages: Sequence[Message], unreliable: set[str]) -> tuple[list[Pair], list[Answer]]:
    """Each call of a conversation with its result, and the results that answer no call there.

    An id that one call has, and that is not among `unreliable`, identifies the call: its result is what has this id,
    wherever it stands. Other results are told by their order, each of the first call before it that has none yet: of
    those with its id if there are any, else of those without an id that identifies them or that a result has; a result
    without id of all of them. The id of OpenAI's item identifies no call here, since results have the call's own.
    """
    asked = [(x, message) for message in messages for x in message.calls]
    results = [(x, message) for message in messages for x in message.results]
    named = [x.call_id for x, _ in asked if x.call_id is not None]
    sure = set(named) - repeated(named) - unreliable
    places: dict[str | None, int] = {x.call_id: at for at, (x, _) in enumerate(results) if x.call_id in sure}
    if len(results) == len(places) and len(sure) == len(asked):  # as nearly always
        at = [places.get(call.call_id) for call, _ in asked]
        return [Pair(*x, None if y is None else results[y]) for x, y in zip(asked, at, strict=True)], []
    ordered = _in_order(messages, set(named), sure, places) if len(results) > len(places) else {}
    answers = [places.get(x.call_id, ordered.get(number)) for number, (x, _) in enumerate(asked)]
    pairs = [
        Pair(
            call if call.call_id in sure else RequestedCall(None, call.name, call.arguments),
            message,
            None if at is None else results[at],
        )
        for (call, message), at in zip(asked, answers, strict=True)
    ]
    told = set(answers)
    return pairs, [x for at, x in enumerate(results) if at not in told]


def repeated(ids: Sequence[str]) -> set[str]:
    """The ids that occur twice."""
    return {x for x, n in Counter(ids).items() if n > 1} if len(set(ids)) < len(ids) else set()


class _Waiting:
    """The calls of a conversation that have no result so far, by number, the first one to be answered first.

    Each waits in several queues; in those that it was not taken from it is passed over.
    """

    def __init__(self) -> None:
        self._for_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._unnamed: deque[int] = deque()
        self._all: deque[int] = deque()
        self._answered: set[int] = set()

    def add(self, number: int, identity: str | None, *, is_sure: bool, is_told: bool) -> None:
        """A call with this id, which identifies it if `is_sure`; results have it if `is_told`."""
        self._all.append(number)
        if is_told and identity is not None:
            self._for_id[identity].append(number)
        elif not is_sure or is_item(identity):
            self._unnamed.append(number)

    def take(self, identity: str | None, *, is_named: bool) -> int | None:
        """The call of a result with this id, which calls have if `is_named`."""
        queue = self._all if identity is None else self._for_id[identity] if is_named else self._unnamed
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

    `named` are the ids of the calls, `sure` those that identify one, `places` where the results of these are.
    """
    waiting = _Waiting()
    told = {x.call_id for message in messages for x in message.results}
    found: dict[int, int] = {}
    number = at = 0
    for message in messages:
        for call in message.calls:
            if call.call_id not in places:
                waiting.add(number, call.call_id, is_sure=call.call_id in sure, is_told=call.call_id in told)
            number += 1
        for result in message.results:
            taken = None
            if result.call_id not in sure:
                taken = waiting.take(result.call_id, is_named=result.call_id in named)
            if taken is not None:
                found[taken] = at
            at += 1
    return found
