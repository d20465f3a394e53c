"""Tool routing: were the right tools called in order?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class ToolRouting(Criterial):
    """Whether the agent called the tools that the conversation needed, in an order that works, and
    no others.

    >>> ToolRouting.criterion.weight
    0.15
    """

    name: ClassVar[str] = "rubric.tool_routing"
    summary: ClassVar[str] = "Were the right tools called, in the right order?"
    criterion: ClassVar[Criterion] = Criterion(
        id="tool_routing",
        display_name="Tool routing",
        description=(
            "Were the right tools called, in the right order? Look at which tools were called and"
            " when, not at their arguments. A call is needless when its answer was there already"
            " and had not changed, or when it served nothing that was asked; it is not for being a"
            " check that the instructions demand, a further page, a look at a state that changes,"
            " or another try after an error. That a tool failed is no fault of its choice."
        ),
        tier="execution",
        weight=0.15,
        levels=(
            (
                "Tools were needed and none was called, or only tools that have nothing to do with"
                " the request."
            ),
            "Most of the calls that were needed are missing, or most calls were wrong.",
            (
                "Several calls were wrong, missing or out of order, or one changed what it must"
                " not; part of the flow worked."
            ),
            (
                "One tool that was needed was not called, or one wrong tool was; the user got the"
                " main thing all the same."
            ),
            (
                "Every call that was needed was made; one came out of order, or one too many was"
                " made that changed nothing."
            ),
            "Every call that was needed was made, in an order that works, and none was needless.",
        ),
        no_occasion="no tool was called, and none was needed",
        needs=("user_input", "tool_calls"),
        in_defaults=True,
    )
