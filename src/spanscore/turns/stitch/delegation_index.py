"""Find, as traces arrive, the pairs in which a tool call of one may have called the agent of the
other.
"""

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
    """When questions or calls with a text were there, by that text."""

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
    """The traces that may delegate to each other, by the texts of calls and questions, and times.

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

    def add(self, trace_id: str, hints: DelegationHints, added_ns: int) -> None:
        """Remember the texts of a trace, which was read now."""
        if hints.question is not None:
            self._remember(added_ns, self._questions, hints.question, (*hints.times, trace_id))
        for called in hints.calls:
            for text in called.texts:
                self._remember(added_ns, self._calls, text, (*called.times, trace_id))

    def forget_before(self, added_ns: int) -> None:
        """Forget the traces that were added until then."""
        while self._order and self._order[0][0] <= added_ns:
            self._forget_first()

    def of(self, trace_id: str, hints: DelegationHints) -> list[str]:
        """The traces that this one's calls may have called, or whose calls may have called it."""
        found = dict.fromkeys((*self._called_by(hints.calls), *self._calling(hints)))
        found.pop(trace_id, None)
        return list(found)

    def _called_by(self, calls: Iterable[Called]) -> Iterator[str]:
        for called in calls:
            first_ns, last_ns = called.times
            for text in called.texts:
                near = self._questions.started(text, first_ns - MAX_SKEW_NS, last_ns + MAX_SKEW_NS)
                for *times, other in near:
                    if may_lie_in((times[0], times[1]), called.times):
                        yield other

    def _calling(self, hints: DelegationHints) -> Iterator[str]:
        if hints.question is not None:
            near = self._calls.started(hints.question, 0, hints.times[0] + MAX_SKEW_NS)
            for *times, other in near:
                if may_lie_in(hints.times, (times[0], times[1])):
                    yield other

    def _remember(self, added_ns: int, known: _ByText, text: int, when: _When) -> None:
        known.add(text, when)
        self._order.append((added_ns, known, text, when))
        if len(self._order) > self._max_texts:
            self._forget_first()

    def _forget_first(self) -> None:
        _, known, text, when = self._order.popleft()
        known.drop(text, when)
