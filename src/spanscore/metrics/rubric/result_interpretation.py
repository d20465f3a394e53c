"""Result interpretation: do answers reflect what tools returned?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class ResultInterpretation(Criterial):
    """Whether the agent told the user what its tools had returned, accurately and whole, errors
    included.

    >>> "tool_calls" in ResultInterpretation.criterion.needs
    True
    """

    name: ClassVar[str] = "rubric.result_interpretation"
    summary: ClassVar[str] = "Does what the agent says reflect what its tools returned?"
    criterion: ClassVar[Criterion] = Criterion(
        id="result_interpretation",
        display_name="Result interpretation",
        description=(
            "Does what the agent says reflect what its tools returned? Hold each statement and each"
            " figure that rests on a tool against the result, and recompute what was counted or"
            " computed from results. An error that a tool returned must be dealt with or told, not"
            " passed over. What the user did not ask about need not be told."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "What the agent says has no relation to what the tools returned.",
            "The results were largely ignored, or the agent says the opposite of them.",
            (
                "What the user mainly wanted to know is wrong, several statements are, or a failure"
                " was told as a success."
            ),
            (
                "One statement is inaccurate in a way that means something to the user; the main"
                " thing is right."
            ),
            "Something minor was left out or blurred, and nobody is misled by it.",
            "Everything told is accurate and complete, and errors were dealt with.",
        ),
        no_occasion=(
            "no tool was called, or nothing that the agent had to tell the user rests on a result"
        ),
        nothing_without=("tool_calls",),
        needs=("final_output", "tool_calls"),
        in_defaults=True,
    )
