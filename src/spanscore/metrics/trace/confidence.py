"""Confidence: were actions decisive and well founded?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judged, Judgement, Question

_QUESTION = Question(
    "confidence",
    """\
How sure of its way was the agent, and with what right, judged by what it did and not by its tone? \
Criteria: decisiveness (it did not go back on itself), appropriateness (its actions fit the user's \
goal), coherence (one strategy runs through the turn), and no sign of low confidence: hedging \
about what its results settle, contradictions, vague output, the same call again though nothing \
had changed, strategies begun and abandoned.
No such sign is another try or another way after a tool failed or a result ruled the first one \
out; a limit or a doubt that the transcript confirms; a question about what is really missing. To \
state as certain what no step supports, or to claim a deed that was not done, is not well founded: \
at most 0.49, however decided it sounds.
Guide: 1.0 decided and well founded throughout; 0.75 to 0.99 a minor hesitation; 0.5 to 0.74 \
noticeable indecision, but one strategy holds; 0.25 to 0.49 several approaches begun and \
abandoned, or a claim that nothing supports; 0 to 0.24 it contradicts itself throughout or has no \
strategy.""",
    Judgement,
)


@dataclass(frozen=True)
class Confidence(Judged):
    """How decisive, fitting and well founded the agent's actions were.

    A signal for the session metrics.

    >>> Confidence().threshold
    0.5
    """

    name: ClassVar[str] = "confidence"
    summary: ClassVar[str] = "Were the agent's actions decisive, fitting and well founded?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    weighs: ClassVar[tuple[str, ...]] = ("tool_calls", "model_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)
