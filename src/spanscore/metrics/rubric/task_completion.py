"""Task completion, as a criterion: was the main task done, yes or no?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criterion import Criterial, Criterion


@dataclass(frozen=True)
class TaskCompletion(Criterial):
    """Whether the main task of the conversation was done: pass, which counts as 5, or fail, which counts as 0.

    The main task is that of the expected outcomes where there are any, else what the user came for. It is not among the
    defaults, and it has no default weight: whoever selects it gives one. Without a model it is skipped.

    >>> TaskCompletion.criterion.kind
    'binary'
    """

    name: ClassVar[str] = "rubric.task_completion"
    summary: ClassVar[str] = "Was the main task done?"
    criterion: ClassVar[Criterion] = Criterion(
        id="task_completion",
        display_name="Task completion",
        description="Was the main task done? It is the main task of the expected outcomes where some are given below, "
        "else what the user came for. What the agent says it did counts only where a tool's result bears it out.",
        tier="execution",
        weight=0.0,
        levels=(
            "Nothing of the main task was done.",
            "The main task was begun, and next to nothing of it was done.",
            "Parts of the main task were done; the user does not have what was asked for.",
            "The main task was done, though something beside it is missing.",
            "The main task was done, with one minor lack.",
            "The main task was done in full, as the record shows.",
        ),
        kind="binary",
    )
