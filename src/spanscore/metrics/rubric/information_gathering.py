"""Information gathering: was what is needed collected first?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class InformationGathering(Criterial):
    """Whether the agent collected what it needed before it acted, and did not ask for what it had
    been told.

    >>> InformationGathering.criterion.display_name
    'Information gathering'
    """

    name: ClassVar[str] = "rubric.information_gathering"
    summary: ClassVar[str] = "Was what is needed collected before acting, and used again once told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="information_gathering",
        display_name="Information gathering",
        description=(
            "Was what is needed collected before the agent acted, and was what the user had said"
            " used again? A question is redundant when its answer had been given or could be looked"
            " up with the tools on offer; it is not when the instructions demand it, as they may"
            " demand a confirmation."
        ),
        tier="process",
        weight=0.10,
        levels=(
            "Nothing of what was needed was collected before the agent acted.",
            "Most of what was needed was not collected.",
            (
                "There are several gaps: facts that were missing when the agent acted, or that were"
                " told and forgotten."
            ),
            (
                "One fact that was required was missing when the agent acted, or one that was told"
                " was forgotten."
            ),
            "There is one redundant question, or one minor miss without consequence.",
            "All that was needed was there before the agent acted, and nothing was asked twice.",
        ),
        no_occasion=(
            "nothing had to be asked or looked up, and nothing said before had to be used again"
        ),
        in_defaults=True,
    )
