"""Traces that were cut before they were complete, and do not show that nothing is missing."""

from collections import OrderedDict
from collections.abc import Callable

from spanscore.assemble.assembler import Cut


class EarlyCuts:
    """The cuts that are read again when their traces are complete, in the order in which they were added.

    That is about the order in which their traces are complete. Pure bookkeeping; not thread-safe.
    """

    def __init__(self) -> None:
        self._cuts: OrderedDict[str, Cut] = OrderedDict()

    def __len__(self) -> int:
        return len(self._cuts)

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._cuts

    def add(self, cut: Cut) -> None:
        """Keep a cut until its trace is complete."""
        self._cuts[cut.trace_id] = cut

    def take(self, trace_id: str) -> Cut | None:
        """The cut of a trace, which is no more kept; None where there is none."""
        return self._cuts.pop(trace_id, None)

    def due(self, now_ns: int, is_open: Callable[[Cut], bool]) -> list[Cut]:
        """The cuts of the traces that are complete by now, which are no more kept.

        A trace that `is_open` again will be cut anew: its old cut is kept until that is taken.
        """
        due: list[Cut] = []
        for _ in range(len(self._cuts)):
            cut = next(iter(self._cuts.values()))
            if cut.waits_until_ns > now_ns:
                break
            if is_open(cut):
                self._cuts.move_to_end(cut.trace_id)
            else:
                due.append(self._cuts.pop(cut.trace_id))
        return due
