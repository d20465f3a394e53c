"""What a reason to join traces is. Each module in `reasons/` contains one, and is found by
scanning.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from spanscore.turns.stitch.fragment import Clue, TraceFragment
from spanscore.turns.stitch.groups import Groups
from spanscore.turns.stitch.read_trace import ReadTrace


class Reason(ABC):
    """One reason to join traces into one turn.

    Its name is that of its module, which is also its key in the configuration. A trace for which
    some reason has a clue becomes a `TraceFragment`. Two fragments are compared where one offers a
    key that the other one seeks; then each reason joins those that it is sure of.
    """

    name: ClassVar[str]
    """The name of its module; set where it is found."""

    words: ClassVar[str]
    """When it joins traces, as a clause for the documentation."""

    after: ClassVar[tuple[str, ...]] = ()
    """The reasons that join before it."""

    def may_apply(self, trace: ReadTrace) -> bool:
        """A quick look at a trace, called for every trace: False for nearly all of them.

        A reason without it gives the same result; only each trace takes longer.
        """
        clue = self.clue(trace)
        return clue is not None and clue.is_evidence

    @abstractmethod
    def clue(self, trace: ReadTrace) -> Clue | None:
        """What this reason finds in the trace; None where it finds nothing."""

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The keys by which other traces look for this one."""
        del part
        return ()

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The keys by which this trace looks for others."""
        del part
        return ()

    @abstractmethod
    def join(self, groups: Groups) -> None:
        """Join those traces that this reason shows to be of one turn, where it leaves no choice."""
