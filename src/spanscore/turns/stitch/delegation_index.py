"""Which traces may have asked which others, as they come: by the texts of tool calls and questions, and the times."""

from bisect import bisect_left, bisect_right, insort_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from spanscore.turns.basis.times import MAX_SKEW_NS, may_lie_in
from spanscore.turns.stitch.delegation_hints import Called, DelegationHints

_MAX_OF_TEXT = 100
"""Calls, or questions, of one text that are compared with one: the latest."""

_When: TypeAlias = tuple[int, int, str]
"""When something started and ended, and the trace in which it did."""


class _ByText:
    """What happened when, by a text that was said."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: defaultdict[int, list[_When]] = defaultdict(list)

    def add(self, text: int, when: _When) -> None:
        insort_right(self._known[text], when)

    def drop(self, text: int, when: _When) -> None:
        known = self._known[text]
        del known[bisect_left(known, when)]
        if not known:
            del self._known[text]

    def started(self, text: int, first_ns: int, last_ns: int) -> Sequence[_When]:
        """What started between the two; of many the latest."""
        known = self._known.get(text)
        if known is None:
            return ()
        end = bisect_right(known, last_ns, key=_start)
        return known[max(bisect_left(known, first_ns, key=_start), end - _MAX_OF_TEXT) : end]


def _start(when: _When) -> int:
    return when[0]


class DelegationIndex:
    """Which traces may have been asked by a tool call of which, and the other way round, by the texts and the times.

    At most `max_texts` are remembered: of more, the latest that came.
    """

    def __init__(self, max_texts: int) -> None:
        self._max_texts = max_texts
        self._questions, self._calls = _ByText(), _ByText()
        self._order: deque[tuple[int, _ByText, int, _When]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def limit(self, max_texts: int) -> None:
        """Remember at most so many from now on."""
        self._max_texts = max_texts
        while len(self._order) > max_texts:
            self._forget_first()

    def add(self, trace_id: str, said: DelegationHints, heard_ns: int) -> None:
        """Remember what a trace says, which was heard of now."""
        if said.question is not None:
            self._remember(heard_ns, self._questions, said.question, (*said.times, trace_id))
        for called in said.calls:
            for text in called.texts:
                self._remember(heard_ns, self._calls, text, (*called.times, trace_id))

    def forget_before(self, heard_ns: int) -> None:
        """Put out of mind what was heard of until then."""
        while self._order and self._order[0][0] <= heard_ns:
            self._forget_first()

    def of(self, trace_id: str, said: DelegationHints) -> list[str]:
        """The other traces that may have been asked by this one's calls, or have asked this one by theirs."""
        found = dict.fromkeys((*self._asked_by(said.calls), *self._asking(said)))
        found.pop(trace_id, None)
        return list(found)

    def _asked_by(self, calls: Iterable[Called]) -> Iterator[str]:
        for called in calls:
            first_ns, last_ns = called.times
            for text in called.texts:
                for *times, other in self._questions.started(text, first_ns - MAX_SKEW_NS, last_ns + MAX_SKEW_NS):
                    if may_lie_in((times[0], times[1]), called.times):
                        yield other

    def _asking(self, said: DelegationHints) -> Iterator[str]:
        if said.question is not None:
            for *times, other in self._calls.started(said.question, 0, said.times[0] + MAX_SKEW_NS):
                if may_lie_in(said.times, (times[0], times[1])):
                    yield other

    def _remember(self, heard_ns: int, known: _ByText, text: int, when: _When) -> None:
        known.add(text, when)
        self._order.append((heard_ns, known, text, when))
        if len(self._order) > self._max_texts:
            self._forget_first()

    def _forget_first(self) -> None:
        _, known, text, when = self._order.popleft()
        known.drop(text, when)
