"""What the metrics of an agent's plan share: which answers they need, and that they do not apply
without a plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged
from spanscore.model.plan import LEAST_STEPS, announced_steps
from spanscore.model.score import Outcome, Skip
from spanscore.model.trace import AgentTrace

_NO_PLAN = "The agent stated no plan of two steps or more: there is nothing to judge."


@dataclass(frozen=True)
class OfPlan(Judged):
    """A metric of the plan that the agent showed; metadata `task` and `plan`, a list of steps."""

    weighs: ClassVar[tuple[str, ...]] = ("plan",)

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """What was judged."""
        del trace
        return {"task": answers["task"], "plan": _steps(answers["plan"])}

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`.

        One announced step is no plan, and without a plan there is nothing to ask.
        """
        if "plan" in answers and len(_steps(answers["plan"])) < LEAST_STEPS:
            return Skip(_NO_PLAN, cause="not_applicable")
        return super().settle(trace, answers)


def _steps(answer: Sequence[str]) -> list[str]:
    """The steps that a judge lists, also where it gives a whole numbered list as one."""
    return [*(announced_steps(answer[0]) or answer)] if len(answer) == 1 else [*answer]
