"""Task completion: was the user's wish met?"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import (
    CONDITIONS,
    LACKING,
    MET,
    OUTCOME,
    TASK,
    UNKNOWN,
    Answers,
    Judged,
    Judgement,
    Question,
)
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "task_completion",
    f"""\
How far does what happened fulfil what the user wants?
The user's wishes:
$task
What came of them:
$outcome
{CONDITIONS} Where the transcript contradicts the account of the outcome, the transcript holds: \
look up each deed and each figure that decides.
{MET}
A question back is rightly asked where the agent needed a fact, a choice or a consent that neither \
the conversation nor a tool could give, and had done before what could be done; asking for what it \
had, or could look up, is not.
Guide: 1.0 every wish is met; 0.75 to 0.99 every wish is met but for a detail that changes nothing \
for the user, or for what waits on a question that was rightly asked; {UNKNOWN}; {LACKING}
Example: two shirts are to be returned and the refund is to go to a card. Results show one return, \
to the card; the output says that both are returned. One wish is not met, and said to be: 0.3. Had \
the instructions forbidden to take back worn shirts, the other shirt been worn, and the output \
said so: 1.0.""",
    Judgement,
    needs=("task", "outcome"),
)


@dataclass(frozen=True)
class TaskCompletion(Judged):
    """How far the agent did what the user asked, whatever way it took.

    Metadata: `task`, the user's goal, and `outcome`, what the agent did, in facts.

    >>> TaskCompletion.needs
    ('user_input', 'final_output')
    """

    name: ClassVar[str] = "task_completion"
    summary: ClassVar[str] = "Did the agent do what the user asked?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    weighs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK, OUTCOME), (_QUESTION,))

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """What was compared."""
        del trace
        return {"task": answers["task"], "outcome": answers["outcome"]}
