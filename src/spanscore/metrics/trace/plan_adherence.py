"""Plan adherence: was the agent's own plan followed?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judgement, Question
from spanscore.metrics._evidence import Evidence, plain_name
from spanscore.metrics._planned import OfPlan
from spanscore.metrics._questions import PLAN, TASK
from spanscore.metrics._words import counted, held, share_held
from spanscore.model.score import Outcome

_QUESTION = Question(
    "plan_adherence",
    """\
Did the agent follow its own plan?
What the user wants:
$task
The agent's plan:
$plan
Find, for each step of the plan, the steps of the transcript that carried it out. Were all of them carried out, in \
the order planned, with nothing skipped and nothing done beyond the plan? A step was carried out if the agent tried \
it in earnest, also where the tool failed; one that was only said to be done was not. A step does not count whose \
condition did not come true, or that a result or the user made impossible or needless; nor is what such a result or \
the user called for beyond the plan. Steps of one kind that do not rest on each other have no order. Whether the plan \
was good does not matter here.
Guide: 1.0 every step, in order, and nothing else; 0.75 to 0.99 all but a minor step, or one small addition; 0.5 to \
0.74 most steps, some skipped or out of order; 0.25 to 0.49 a step on which others rest was skipped, or most were; 0 \
to 0.24 the agent did something else.""",
    Judgement,
    needs=("task", "plan"),
)
_MOST = 0.5
_ANSWERING_VERBS = (
    "answer compile confirm explain inform present provide recommend reply report respond return share summarise "
    "summarize write"
)
_ANSWERING = frozenset(_ANSWERING_VERBS.split())


@dataclass(frozen=True)
class PlanAdherence(OfPlan):
    """Whether the agent carried out the plan it had declared or implied: all of it, in order, and nothing beyond.

    Where it showed no plan of two steps or more there is no score: it does not apply. Metadata: `task` and `plan`, a
    list of steps.

    >>> PlanAdherence.stages[1][0].key
    'plan'
    """

    name: ClassVar[str] = "plan_adherence"
    summary: ClassVar[str] = "Did the agent follow its own plan?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls", "final_output")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((TASK,), (PLAN,), (_QUESTION,))

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """Plan steps matched to calls by their words.

        The plan is what the trace states as such, else what the models wrote before the first call: the items of a
        list, or the clauses of sentences such as "I will ... then ...". A step was executed when a call has a word of
        the step in its tool's name, or half of the step's words in its arguments; a step that speaks of answering is
        executed by a final output. The score is the share of steps executed, times 0.7 + 0.2 x the share of the
        executed steps that came in the planned order + 0.1 x the share of calls that belong to some step.
        """
        steps = evidence.plan
        if not steps:
            return self.scored_by_rules(evidence, None)
        matches = [_calls_of(words, evidence) for words in evidence.plan_words]
        done = [found for found in matches if found]
        executed = len(done) / len(steps)
        in_order = _in_order(done)
        ordered = in_order / len(done) if done else 0.0
        planned = {index for found in done for index in found}
        calls = len(evidence.calls)
        within = len(planned & set(range(calls))) / calls if calls else 1.0
        value = executed * (0.7 + 0.2 * ordered + 0.1 * within)
        skipped = [step for step, found in zip(steps, matches, strict=True) if not found]
        reason = _executed(len(done), len(steps), in_order)
        reason += f"; not seen: {'; '.join(skipped[:3])}" if skipped else ""
        reason += f"; {counted(calls - round(within * calls), 'call')} beyond the plan" if within < 1 else ""
        return self.scored_by_rules(evidence, value, f"{reason}.{evidence.limits}")


def _executed(done: int, steps: int, in_order: int) -> str:
    if steps == 1:
        return f"The one planned step was {'executed' if done else 'not executed'}"
    order = "" if done < 2 else ", in order" if in_order == done else f", {in_order} of them in order"
    return f"{done or 'None'} of {steps} planned steps {'was' if done < 2 else 'were'} executed{order}"


def _calls_of(words: list[str], evidence: Evidence) -> list[int]:
    """The calls that carry out a step of these words; one past the last call stands for the final output."""
    used = held(words, evidence.deeds)  # mostly none, which spares looking through each call
    found = []
    for index, call in enumerate(evidence.calls if used or not words else ()):
        name, arguments = plain_name(call.name), evidence.arguments[index]
        if held(used, name) or share_held(words, arguments) > _MOST:
            found.append(index)
    if not _ANSWERING.isdisjoint(words) and evidence.answer.strip():
        found.append(len(evidence.calls))
    return found


def _in_order(matches: list[list[int]]) -> int:
    """How many steps can be assigned calls whose places never go down: taken greedily, the earliest that fits."""
    last, count = -1, 0
    for found in matches:
        fitting = [index for index in found if index >= last]
        if fitting:
            last, count = fitting[0], count + 1
    return count
