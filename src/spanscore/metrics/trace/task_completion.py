"""Task completion: did the agent do what the user asked?"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged, Judgement, Question
from spanscore.metrics._evidence import Evidence, reads
from spanscore.metrics._questions import CONDITIONS, LACKING, MET, OUTCOME, TASK, UNKNOWN
from spanscore.metrics._words import MAX_TEXT_CHARS, content_words, counted, holds_any, phrases, plain, share_held
from spanscore.model.score import Outcome, Score
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "task_completion",
    f"""\
How far does what happened fulfil what the user wants?
The user's wishes:
$task
What came of them:
$outcome
{CONDITIONS} Where the transcript contradicts this account of the outcome, the transcript holds: look up each deed \
and each figure that decides.
{MET}
A question back is rightly asked where the agent needed a fact, a choice or a consent that neither the conversation \
nor a tool could give, and had done before what could be done; asking for what it had, or could look up, is not.
Guide: 1.0 every wish is met; 0.75 to 0.99 every wish is met but for a detail that changes nothing for the user, or \
for what waits on a question that was rightly asked; {UNKNOWN}; {LACKING}
Example: two shirts are to be returned and the refund is to go to a card. Results show one return, to the card; the \
output says that both are returned. One wish is not met, and said to be: 0.3. Had the instructions forbidden to take \
back worn shirts, the other shirt been worn, and the output said so: 1.0.""",
    Judgement,
    needs=("task", "outcome"),
)

_GAVE_UP = phrases("""
I'm sorry
I am sorry
I'm afraid
I am afraid
unable to
not able to
can't
cannot
couldn't
could not
failed to
an error
something went wrong
not possible
don't have access
do not have access
don't have information
do not have information
""")
_ANNOUNCED = phrases("""
I'll check
I will check
I will now
I'll now
I'll look
I'll search
I'll find
I'll get back
I'll proceed
I will proceed
let me check
let me look
let me search
let me find
please wait
please hold
one moment
hold on
""")
_PART = re.compile(r"[.!?;\n]+\s*|,?\s+(?:and|then|also|plus)\s+", re.IGNORECASE)
_CLOSING_CHARS = 200
_SHOWN_CHARS = 500
_MAX_PARTS = 12


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

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """Signs of an answer that addresses the request; whether the answer is true cannot be seen.

        0 for an empty final output. Else 0.4, and 0.6 times how well the parts of the input (its sentences and
        clauses) are addressed: a part is when half of its words, or more, come back in the final output or in the
        calls; an input of one part counts as addressed by half at least, since a short answer repeats no word of its
        question. This is multiplied: by 0.7 where tools that look something up returned something and nothing of it
        was used; by 1 - 0.5 x the share of failed calls whose tool never succeeded; by 0.6 where the last call is one
        of those; by 0.8 where the output says somewhere that something could not be done. It is at most 0.3 where the
        output opens with that, at most 0.4 where it ends by announcing work instead of its result, and at most 0.7
        where it ends with a question.
        """
        output = (evidence.trace.final_output or "").rstrip()
        metadata = {"task": evidence.task, "outcome": _outcome(evidence)}
        if not output:
            return Score(0.0, "The final output is empty.", metadata)
        addressed = _addressed(evidence)
        value, notes = 0.4 + 0.6 * addressed, [_taken_up(addressed)]
        for factor, note in _failings(evidence):
            value *= factor
            notes.append(note)
        for most, note in _endings(evidence, output):
            value = min(value, most)
            notes.append(note)
        return Score(round(value, 4), f"{'; '.join(notes)}.{evidence.limits}", metadata)


def _addressed(evidence: Evidence) -> float:
    parts = [content_words(plain(x)) for x in _PART.split((evidence.trace.user_input or "")[:4000])]
    parts = [words for words in parts if words][:_MAX_PARTS]
    if not parts:
        return 1.0
    said_or_done = evidence.answer + evidence.deeds[:MAX_TEXT_CHARS]
    addressed = sum(min(1.0, 2 * share_held(words, said_or_done)) for words in parts) / len(parts)
    return max(addressed, 0.5) if len(parts) == 1 else addressed


def _taken_up(share: float) -> str:
    if share == 1.0:
        return "The answer and the calls take up all that was asked, as far as words show"
    return f"The answer and the calls take up {share:.0%} of what was asked, as far as words show"


def _failings(evidence: Evidence) -> list[tuple[float, str]]:
    """(factor, note) of each thing that went wrong on the way."""
    failings = []
    informative = [
        i for i, x in enumerate(evidence.calls) if reads(x.name) and x.error is None and evidence.raw_results[i]
    ]
    if informative and set(informative) <= set(evidence.unused):
        failings.append((0.7, "nothing that was looked up was used"))
    lost = evidence.unrecovered
    if lost:
        failings.append(
            (
                1 - 0.5 * len(lost) / len(evidence.calls),
                f"{counted(len(lost), 'failed call')} {'was' if len(lost) == 1 else 'were'} never made good",
            )
        )
    if lost and not evidence.unseen and lost[-1] == len(evidence.calls) - 1:
        failings.append((0.6, "the last call failed"))
    given_up = filter(evidence.answer.__contains__, _GAVE_UP)
    if any(x not in evidence.opening for x in given_up):
        failings.append((0.8, "the output says that something could not be done"))
    return failings


def _endings(evidence: Evidence, output: str) -> list[tuple[float, str]]:
    """(upper bound, note) of each way in which an output is no result."""
    endings = []
    if holds_any(evidence.opening, _GAVE_UP):
        endings.append((0.3, "the output opens with what could not be done"))
    closing = plain(output[-_CLOSING_CHARS:])
    if holds_any(closing, _ANNOUNCED):
        endings.append((0.4, "the output ends by announcing work"))
    if output.endswith("?"):
        endings.append((0.7, "the output ends with a question"))
    return endings


def _outcome(evidence: Evidence) -> str:
    calls = [x.name + (" (failed)" if x.error else "") for x in evidence.calls[:20]]
    if evidence.trace.tool_calls is None:
        did = "Tool calls were not recorded."
    else:
        did = f"Called {', '.join(calls)}." if calls else "Called no tool."
    return f"{did} Answered: {(evidence.trace.final_output or '(nothing)')[:_SHOWN_CHARS]}"
