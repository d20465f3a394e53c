"""Parameter extraction: did values come from the conversation?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class ParameterExtraction(Criterial):
    """Whether the arguments of the tool calls were taken correctly from what the user said and the
    tools returned.

    >>> ParameterExtraction.criterion.tier
    'execution'
    """

    name: ClassVar[str] = "rubric.parameter_extraction"
    summary: ClassVar[str] = "Were the values given to tools taken correctly from the conversation?"
    criterion: ClassVar[Criterion] = Criterion(
        id="parameter_extraction",
        display_name="Parameter extraction",
        description=(
            "Were the values that tools were given taken correctly from the conversation? A value"
            " may come from the user, from the agent's rules or from what a tool had returned, or"
            " follow from these by computing, converting or rewording; it must mean what was meant"
            " there, by the user's last word. A critical value is one that changes what the call"
            " does or returns. An optional value that nobody asked about, such as a limit, needs no"
            " source."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            "No value has a source in the conversation.",
            "Most values were made up, or most of those needed are missing.",
            (
                "Several critical values are wrong or missing, or a wrong one changed what it must"
                " not."
            ),
            "One critical value is wrong or missing, and the outcome shows it.",
            (
                "All critical values are right; a minor one slipped, or a wrong one was put right"
                " before it had an effect."
            ),
            "Every value is right and has its source.",
        ),
        no_occasion="no tool was called, or only tools that take no values",
        nothing_without=("tool_calls",),
        needs=("user_input", "tool_calls"),
        in_defaults=True,
    )
