"""Confidence: were the agent's actions decisive, fitting and well founded?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judged, Judgement, Question
from spanscore.metrics._evidence import Evidence
from spanscore.metrics._words import counted, listed, phrases
from spanscore.model.score import Outcome, Score

_QUESTION = Question(
    "confidence",
    """\
How sure of its way was the agent, and with what right, judged by what it did and not by its tone? Use four criteria:
1. Decisiveness: it acted without going back on itself.
2. Appropriateness: its actions fit the user's goal.
3. Coherence: one strategy runs through the turn.
4. Signs of low confidence: hedging about what its results settle, contradictions, vague output, the same call with \
the same parameters though nothing had changed, strategies begun and abandoned.
No sign of low confidence: another try or another way after a tool failed or a result ruled the first one out; a \
limit or a doubt that the transcript confirms; a question about what is really missing. To state as certain what no \
step supports, or to claim a deed that was not done, is not well founded: at most 0.49, however decided it sounds.
Guide: 1.0 decided and well founded throughout; 0.75 to 0.99 a minor hesitation; 0.5 to 0.74 noticeable indecision, \
but one strategy holds; 0.25 to 0.49 several approaches begun and abandoned, or a claim that nothing supports; 0 to \
0.24 it contradicts itself throughout or has no strategy.""",
    Judgement,
)

_HEDGES = phrases("""
not sure
not entirely sure
not certain
not entirely certain
perhaps
maybe
possibly
presumably
I think
I guess
I believe
I assume
it seems
it appears
might be
could be
unclear
hard to say
""")
_REVERSALS = phrases("""
actually
on second thought
scratch that
wait
correction
I made a mistake
I was wrong
I misspoke
my mistake
let me try again
let me try another
let me try a different
let me rethink
let me correct
apologies for the confusion
""")
_WORDS_A_HEDGE = 60
_COST = {"hedge": 0.1, "reversal": 0.2, "retry": 0.25, "abandoned": 0.2, "empty": 0.5}
_MOST_FOR_HEDGES = 0.4


@dataclass(frozen=True)
class Confidence(Judged):
    """How decisive, fitting and well founded the agent's actions were. A signal for the session metrics.

    >>> Confidence().threshold
    0.5
    """

    name: ClassVar[str] = "confidence"
    summary: ClassVar[str] = "Were the agent's actions decisive, fitting and well founded?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    weighs: ClassVar[tuple[str, ...]] = ("tool_calls", "model_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """1, less for each sign of low confidence, and never below 0.

        Hedging words in the final output ("perhaps", "I think", "not sure"): 0.1 for each beyond one in 60 words,
        at most 0.4. Reversals in what the models wrote ("actually,", "let me try another", "I was wrong"): 0.2 each.
        The same call again although it had succeeded with the same result, or again unchanged after it failed and
        failing again: 0.25 each. A tool that failed, never succeeded and was left for another: 0.2 each. An empty
        final output: 0.5.
        """
        signs = list(_signs(evidence))
        value = max(0.0, 1.0 - sum(cost for cost, _ in signs))
        reason = "; ".join(note for _, note in signs) or "No sign of low confidence"
        return Score(round(value, 4), f"{reason[:1].upper()}{reason[1:]}.{evidence.limits}")


def _signs(evidence: Evidence) -> Iterator[tuple[float, str]]:
    """(cost, note) of each kind of sign that shows."""
    calls, answer = evidence.calls, evidence.answer
    if not answer.strip():
        yield _COST["empty"], "the final output is empty"
    hedges = sum(map(answer.count, _HEDGES))
    too_many = hedges - len(answer.split()) // _WORDS_A_HEDGE if hedges else 0
    if too_many > 0:
        found = [x.strip() for x in _HEDGES for _ in range(answer.count(x))]
        yield min(_MOST_FOR_HEDGES, _COST["hedge"] * too_many), f"hedging: {', '.join(found[:5])}"
    reversals = sum(map(evidence.written.count, _REVERSALS))
    if reversals:
        yield _COST["reversal"] * reversals, counted(reversals, "change") + " of mind"
    repeats = len(evidence.duplicates) + len(evidence.blind_retries)
    if repeats:
        yield _COST["retry"] * repeats, counted(repeats, "needless repetition") + " of the same call"
    abandoned = {calls[i].name for i in evidence.unrecovered if any(x.name != calls[i].name for x in calls[i + 1 :])}
    if abandoned:
        yield _COST["abandoned"] * len(abandoned), f"abandoned after failing: {listed(sorted(abandoned))}"
