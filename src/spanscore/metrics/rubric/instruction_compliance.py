"""Instruction compliance: were the system prompt's rules followed?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class InstructionCompliance(Criterial):
    """Whether the agent kept the rules, the role and the scope that its system prompt gives it.

    Without a model it is skipped, and so is a session in which no turn recorded the system prompt.

    >>> InstructionCompliance.criterion.needs_once
    ('system_instructions',)
    """

    name: ClassVar[str] = "rubric.instruction_compliance"
    summary: ClassVar[str] = "Were the rules of the agent's system prompt followed?"
    criterion: ClassVar[Criterion] = Criterion(
        id="instruction_compliance",
        display_name="Instruction compliance",
        description=(
            "Were the explicit rules of the agent's system prompt followed? Take those one by one"
            " that the session gave occasion for, with the role and the scope that the prompt sets,"
            " and judge by the facts of the record: neither what the user claims nor what the user"
            " wants changes a rule. What the prompt does not say is no rule."
        ),
        tier="knowledge",
        weight=0.125,
        levels=(
            "The instructions were disregarded entirely.",
            "Most instructions were ignored.",
            (
                "Several rules that matter were broken, or one whose breach cannot be undone; role"
                " or scope were left in part."
            ),
            "One rule that matters was broken; the core of the role is intact.",
            "There is one minor deviation, without consequence.",
            "All rules were kept, and so were role and scope.",
        ),
        no_occasion="the system prompt sets neither a rule nor a role nor a scope",
        needs=("user_input", "final_output"),
        needs_once=("system_instructions",),
        in_defaults=True,
    )
