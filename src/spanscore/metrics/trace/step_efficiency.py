"""Step efficiency: was the work as little as the task allowed?"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged, Judgement, Question
from spanscore.metrics._evidence import Evidence
from spanscore.metrics._questions import TASK
from spanscore.metrics._words import counted, listed
from spanscore.model.score import Outcome, Score
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "step_efficiency",
    """\
Was the work no more than the task needed?
The user's task:
$task
Go through the steps and ask of each whether the task could have been done as well without it. Count against the \
agent: redundant or repeated calls; intermediate steps whose result nobody used; speculative work that nobody asked \
for; reasoning that goes on without adding anything. Whether the result is right does not matter here, nor do \
steps that a rule in the agent's instructions demands.
Guide: 1.0 nothing could be left out; 0.75 one needless step; 0.5 several needless steps, or one costly detour; 0.25 \
most of the work was needless; 0.0 the work went in circles.""",
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

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """The share of steps that were of use; steps are the tool calls and the final answer.

        Of no use are: a repetition of a call that had succeeded and that brought the same result; an unchanged
        repetition of a failed call that fails again; a model call that says word for word what an earlier one said.
        Of half use is a call that looks something up and of whose result nothing new reached the final output or a
        later call's arguments; where the final output was not recorded, or not all
        calls were looked at, this is not counted. A model call that only
        repeats itself is a step as well.
        """
        calls = evidence.calls
        wasted = {*evidence.duplicates, *evidence.blind_retries}
        idle = set(evidence.unused) - wasted if evidence.trace.final_output is not None else set()
        texts = [x.text for x in evidence.trace.model_calls if x.text]
        echoes = len(texts) - len(set(texts))
        steps = len(calls) + 1 + echoes
        value = 1 - (len(wasted) + 0.5 * len(idle) + echoes) / steps
        notes = [f"call {i + 1} ({calls[i].name}) repeats call {evidence.repeats[i] + 1}" for i in sorted(wasted)]
        notes += [f"nothing of what call {index + 1} ({calls[index].name}) returned was used" for index in sorted(idle)]
        if echoes:
            notes.append(f"{counted(echoes, 'model call')} only repeated the text of an earlier one")
        reason = listed(notes) or f"No needless step in {counted(len(calls), 'call')} and the answer"
        metadata = {"task": evidence.task}
        return Score(round(value, 4), f"{reason[:1].upper()}{reason[1:]}.{evidence.limits}", metadata)
