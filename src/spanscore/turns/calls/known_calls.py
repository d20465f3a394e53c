"""The tool calls of a turn that are known so far, while the inputs of model calls complete them."""

from bisect import insort_right
from collections import defaultdict
from typing import TypeAlias

from spanscore.model.trace import RequestedCall
from spanscore.turns.basis.call_ids import is_item
from spanscore.turns.calls.appearances import Call, Order, Requested, Returned
from spanscore.turns.calls.call_facts import is_settled, settle
from spanscore.turns.calls.call_kinds import Kind, items, kind_of, kind_with

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
