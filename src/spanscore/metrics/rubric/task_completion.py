"""Task completion, as a criterion of the rubric."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class TaskCompletion(Criterial):
    """Whether the main task of the conversation was done: pass, which counts as 5, or fail, which
    counts as 0.

    The main task is that of the expected outcomes where there are any, else what the user came for.
    It is not among the defaults, and it has no default weight: whoever selects it gives one.
    Without a model it is skipped.

    >>> TaskCompletion.criterion.kind
    'binary'
    """

    name: ClassVar[str] = "rubric.task_completion"
    summary: ClassVar[str] = "Was the main task done?"
    criterion: ClassVar[Criterion] = Criterion(
        id="task_completion",
        display_name="Task completion",
        description=(
            "Was the main task done by the end of the session? It is the main task of the expected"
            " outcomes where some are given below, else what the user came for, by the user's last"
            " word. A deed is done where a tool's result shows its right end, not where the agent"
            " says so; a question is answered where the answer is right: hold its figures against"
            " the results. What the agent's instructions forbid, or the results show to be"
            " impossible, is done when the agent declined it in words and did what the instructions"
            " demand instead; to grant it is a fail, and so is a change that nobody asked for, or"
            " that lacks a consent which the instructions demand."
        ),
        tier="execution",
        weight=0.0,
        levels=(
            "Nothing of the main task was done.",
            "The main task was begun, and next to nothing of it was done.",
            (
                "Parts of the main task were done; something that matters to the user is missing or"
                " wrong."
            ),
            "The main task was done; something beside it is missing.",
            "The main task was done, with one minor lack that changes nothing for the user.",
            "The main task was done in full, as the record shows.",
        ),
        no_occasion="the user wanted nothing: neither a deed nor an answer",
        kind="binary",
    )
