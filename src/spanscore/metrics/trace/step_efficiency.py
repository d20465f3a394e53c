"""Step efficiency: was the work minimal?"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import TASK, Answers, Judged, Judgement, Question
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "step_efficiency",
    """\
Was the work no more than the task needed?
What the user wants:
$task
Ask of each step whether the task could have been done as well without it, by what the agent could \
know then. Against the agent: a call whose answer was there already and had not changed; a step \
whose result could serve nothing; work that nobody asked for; many calls where one that is on \
offer does the same; reasoning that repeats itself or goes in circles.
Not against it: what the agent's instructions demand, such as checks and confirmations; a search \
that finds nothing; a changed try, or one more, after an error; asking again for a state that \
changes; a check before what cannot be undone; a question that the user had to be asked. Whether \
the result is right, or something is left undone, does not matter here.
Guide: 1.0 no step could be left out; 0.75 to 0.99 one cheap step among several could; 0.5 to 0.74 \
a few could, or one that cost much; 0.25 to 0.49 about half of the work was needless, or more; 0 \
to 0.24 nearly all of it was, or it went in circles.""",
    Judgement,
    needs=("task",),
)


@dataclass(frozen=True)
class StepEfficiency(Judged):
    """Whether the agent took no more steps than the task needed, whatever came of them.

    Metadata: `task`, the user's goal.

    >>> StepEfficiency.stages[0][0].key
    'task'
    """

    name: ClassVar[str] = "step_efficiency"
    summary: ClassVar[str] = "Was the work no more than the task needed?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    weighs: ClassVar[tuple[str, ...]] = ("final_output", "model_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK,), (_QUESTION,))

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """What the steps were held against."""
        del trace
        return {"task": answers["task"]}
