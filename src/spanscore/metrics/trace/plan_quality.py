"""Plan quality: was the agent's plan a good one, whether or not it was followed?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judgement, Question
from spanscore.metrics._evidence import Evidence, plain_name
from spanscore.metrics._planned import OfPlan
from spanscore.metrics._questions import PLAN, TASK
from spanscore.metrics._words import held, share_held, stem
from spanscore.model.score import Outcome

_QUESTION = Question(
    "plan_quality",
    """\
Was the agent's plan a good one for this task, whether or not it was followed?
What the user wants:
$task
The agent's plan:
$plan
Judge it as it stood when it was made, by what the agent could know then, and not by what came of it. Five criteria: \
completeness (carried out, it would meet every wish, within the agent's instructions), logical coherence (each step \
builds on what is known by then), economy (nothing needless), level of detail (definite enough to act on, no \
padding), fit with the task and with the tools on offer.
Guide: 1.0 carried out as it stands it would do the task, with no step too many; 0.75 to 0.99 it would do it, with a \
needless or vague step; 0.5 to 0.74 it would do it only if a gap is filled that is easy to fill on the way; 0.25 to \
0.49 something that matters is missing, wrong or impossible with the tools on offer; 0 to 0.24 it would not do the \
task, or do something that the agent's instructions forbid.""",
    Judgement,
    needs=("task", "plan"),
)
_FULL_DETAIL_WORDS = 3
_MAX_ECONOMIC_STEPS = 10


@dataclass(frozen=True)
class PlanQuality(OfPlan):
    """How good the agent's plan was: complete, coherent, economic, detailed enough, and fitting the task.

    Where it showed no plan of two steps or more there is no score: it does not apply. Metadata: `task` and `plan`, a
    list of steps.

    >>> PlanQuality.stages[2][0].needs
    ('task', 'plan')
    """

    name: ClassVar[str] = "plan_quality"
    summary: ClassVar[str] = "Was the agent's plan a good one?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK,), (PLAN,), (_QUESTION,))

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """The mean of four marks of the plan that plan_adherence describes.

        Completeness: the share of the input's content words that the plan takes up, doubled, at most 1. Detail: the
        mean over the steps of their content words, of which three are full detail. Economy: the share of steps that
        say something new (more than half of their words are not in one earlier step), times 10 / steps when there
        are more than ten. Means: the share of steps that name a tool on offer by a word, doubled, at most 1; left
        out where the trace does not hold the tools on offer.
        """
        if not evidence.plan:
            return self.scored_by_rules(evidence, None)
        marks = _marks(evidence)
        reason = ", ".join(f"{name} {mark:.2f}" for name, mark in marks.items())
        return self.scored_by_rules(evidence, sum(marks.values()) / len(marks), f"Marks of the plan: {reason}.")


def _marks(evidence: Evidence) -> dict[str, float]:
    words = evidence.plan_words
    everything = f" {' '.join(word for step in words for word in step)} "
    marks = {
        "completeness": min(1.0, 2 * share_held(evidence.request_words, everything)),
        "detail": sum(min(1.0, len(x) / _FULL_DETAIL_WORDS) for x in words) / len(words),
        "economy": _economy(words),
    }
    if evidence.offered:
        names = "".join([plain_name(tool.name) for tool in evidence.offered])
        armed = sum(bool(held(x, names)) for x in words)
        marks["means"] = min(1.0, 2 * armed / len(words))
    return marks


def _economy(words: list[list[str]]) -> float:
    stems = [{stem(word) for word in x} for x in words]
    new = sum(
        not any(earlier and 2 * len(step & earlier) > len(step | earlier) for earlier in stems[:index])
        for index, step in enumerate(stems)
    )
    return new / len(stems) * min(1.0, _MAX_ECONOMIC_STEPS / len(stems))
