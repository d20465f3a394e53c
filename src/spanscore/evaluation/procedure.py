"""How the traces and sessions are measured that one rule takes, or that none takes."""

from dataclasses import dataclass

from spanscore.evaluation.grading import Grading
from spanscore.evaluation.measuring import Measuring
from spanscore.evaluation.selection import Selection


@dataclass(frozen=True, slots=True)
class Procedure:
    """What is measured, and by whom."""

    selection: Selection
    measuring: Measuring
    grading: Grading

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        return self.selection.has_judge or any(x.looks_back for x in self.selection.configured)
