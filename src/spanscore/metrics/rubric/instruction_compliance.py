"""Instruction compliance: were the explicit rules of the system prompt followed?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criterion import Criterial, Criterion


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
        description="Were the explicit rules of the agent's system prompt followed? Take the rules one by one, with "
        "the role and the scope that it sets; what the prompt does not say is no rule.",
        tier="knowledge",
        weight=0.125,
        levels=(
            "The instructions were disregarded entirely.",
            "Most instructions were ignored.",
            "Several rules were broken, and the agent left its role or scope in part.",
            "One rule that matters was broken; the core of the role is intact.",
            "There is one minor deviation.",
            "All rules were kept, and so were role and scope.",
        ),
        needs=("user_input", "final_output"),
        needs_once=("system_instructions",),
        in_defaults=True,
    )
