"""Plan quality: was the plan a good one?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import NO_PLAN, PLAN, TASK, Judgement, OfPlan, Question

_QUESTION = Question(
    "plan_quality",
    """\
Was the agent's plan a good one for this task, whether or not it was followed?
What the user wants:
$task
The agent's plan:
$plan
Judge it as it stood when it was made, by what the agent could know then, and not by what came of \
it: completeness (carried out, it would meet every wish, within the agent's instructions), \
coherence (each step builds on what is known by then), economy (nothing needless), level of detail \
(definite enough to act on, no padding), fit with the task and with the tools on offer.
Guide: 1.0 as it stands it would do the task, with no step too many; 0.75 to 0.99 it would do it, \
with a needless or vague step; 0.5 to 0.74 only if a gap is filled that is easy to fill on the \
way; 0.25 to 0.49 something that matters is missing, wrong or impossible with the tools on offer; \
0 to 0.24 it would not do the task, or do something that the agent's instructions forbid.""",
    Judgement,
    needs=("task", "plan"),
    moot=NO_PLAN,
)


@dataclass(frozen=True)
class PlanQuality(OfPlan):
    """How good the agent's plan was: complete, coherent, economic, detailed enough, and fitting the
    task.

    Where it showed no plan of two steps or more there is no score: it does not apply. Metadata:
    `task` and `plan`, a list of steps.

    >>> PlanQuality.stages[2][0].needs
    ('task', 'plan')
    """

    name: ClassVar[str] = "plan_quality"
    summary: ClassVar[str] = "Was the agent's plan a good one?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK,), (PLAN,), (_QUESTION,))
