"""Plan adherence: was the agent's own plan followed?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import NO_PLAN, PLAN, TASK, Judgement, OfPlan, Question

_QUESTION = Question(
    "plan_adherence",
    """\
Did the agent follow its own plan?
What the user wants:
$task
The agent's plan:
$plan
Were all of its steps carried out, in the order planned, with nothing skipped and nothing done \
beyond? A step was carried out if the agent tried it in earnest, also where the tool failed; one \
that was only said to be done was not. A step does not count whose condition did not come true, or \
that a result or the user made impossible or needless; nor does what such a result or the user \
called for beyond the plan. Steps of one kind that do not rest on each other have no order. \
Whether the plan was good does not matter here.
Guide: 1.0 every step, in order, and nothing else; 0.75 to 0.99 all but a minor step, or one small \
addition; 0.5 to 0.74 most steps, some skipped or out of order; 0.25 to 0.49 a step on which \
others rest was skipped, or most were; 0 to 0.24 the agent did something else.""",
    Judgement,
    needs=("task", "plan"),
    moot=NO_PLAN,
)


@dataclass(frozen=True)
class PlanAdherence(OfPlan):
    """Whether the agent carried out the plan it had declared or implied: all of it, in order, and
    nothing beyond.

    Where it showed no plan of two steps or more there is no score: it does not apply. Metadata:
    `task` and `plan`, a list of steps.

    >>> PlanAdherence.stages[1][0].key
    'plan'
    """

    name: ClassVar[str] = "plan_adherence"
    summary: ClassVar[str] = "Did the agent follow its own plan?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls", "final_output")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK,), (PLAN,), (_QUESTION,))
