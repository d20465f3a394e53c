"""Grounding fidelity: can every claim be traced to something?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class GroundingFidelity(Criterial):
    """Whether every claim of the agent can be traced to the conversation, to a tool's result or to
    its rules.

    >>> GroundingFidelity.criterion.weight
    0.125
    """

    name: ClassVar[str] = "rubric.grounding_fidelity"
    summary: ClassVar[str] = "Can every claim of the agent be traced to something it was told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="grounding_fidelity",
        display_name="Grounding fidelity",
        description=(
            "Can every specific claim of the agent be traced to what the user said, to what a tool"
            " or a document gave, or to the agent's own rules? A deed that the agent claims needs a"
            " call that did it. What follows from the sources by counting, computing or rewording"
            " is grounded, and general knowledge that nobody would dispute needs no source. Whether"
            " a source was read rightly does not count here."
        ),
        tier="knowledge",
        weight=0.125,
        levels=(
            "All that was claimed was made up.",
            "Most of what was claimed was made up.",
            "Several claims that matter have no source, or a deed was claimed that was not done.",
            "One claim that matters has no source and could mislead.",
            "One minor statement cannot be verified.",
            "Every specific claim has its source, and what is uncertain is told as uncertain.",
        ),
        no_occasion="the agent made no specific claim: it only greeted or asked",
        needs=("user_input", "final_output", "tool_calls"),
        in_defaults=True,
    )
