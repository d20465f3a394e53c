"""Conversation completion: was the user served in the end?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from spanscore.metrics._base import (
    CONDITIONS,
    FACTS,
    LACKING,
    LAST_WORD,
    MET,
    UNKNOWN,
    WISHES,
    Answers,
    JudgedSession,
    Question,
)
from spanscore.model.options import Described
from spanscore.model.score import Score, Skip
from spanscore.model.trace import AgentTrace, Session


class Completion(Described):
    """The completion of a conversation: what was wanted, what came of it, and the score that rests
    on the two.

    The order of the fields is the order in which a model writes them: the facts stand before the
    score.
    """

    model_config = ConfigDict(frozen=True)

    task: Annotated[str, Field(min_length=1)]
    """The user's wishes, with their conditions."""

    outcome: Annotated[str, Field(min_length=1)]
    """What came of them by the end of the session, in facts."""

    reason: Annotated[str, Field(min_length=1)]
    """What decides the score, in one to three sentences that begin with what keeps it from 1.0, if
    anything does.
    """

    score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    """From 0.0 to 1.0, by the guide in the question."""


CONVERSATION_COMPLETION = Question(
    "conversation_completion",
    f"""\
Did the user have, by the end of the session, what the user wanted? Judge the session as a whole: \
what stands in the end counts, in whichever turn it was done. Answer in this order.
task: state what the user wants to have or to know by the end of the session: {WISHES}. Take it \
from all that the user said in any turn. {LAST_WORD} Put down nothing of what the agent did.
outcome: state {FACTS}
reason and score: how far that outcome fulfils that task. {CONDITIONS} What was done, and later \
undone against the user's will, is not met.
{MET}
A question of the agent meets nothing by itself: a wish that still waits for the user's answer \
when the session ends is not met.
Guide: 1.0 every wish is met; 0.75 to 0.99 every wish is met but for a detail that changes nothing \
for the user; {UNKNOWN}; {LACKING}
Example: in turn 0 the user wants to cancel an order and is refused, since it had been sent (step \
2) and the instructions allow no cancelling then; in turn 1 the user wants to return it instead, \
and a result shows the return. The wish was changed and its last form is met: 1.0. Had the agent \
only said that the return was booked: 0.1.""",
    Completion,
)
"""The one question about a session; its answer has the task and the outcome besides reason and
score.
"""


_FACTS = ("user_input", "final_output")


@dataclass(frozen=True)
class ConversationCompletion(JudgedSession):
    """How far a whole conversation gave the user what the user wanted, whatever way it took.

    Judged are all turns of a session together: wishes that were changed or withdrawn on the way,
    questions that were answered in a later turn, and what was done in any of them. It does not
    apply to a session of one turn, which `task_completion` judges. Of a session of more than 1,000
    traces in the store, the latest 1,000 are shown. Metadata: `task`, the user's goal, `outcome`,
    what came of it, in facts, and `turns`, how many there were.

    >>> ConversationCompletion().unmeasurable_session(Session("s", ())).cause
    'not_applicable'
    """

    name: ClassVar[str] = "conversation_completion"
    summary: ClassVar[str] = "Did the user have what the user wanted when the conversation ended?"
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((CONVERSATION_COMPLETION,),)

    def unmeasurable_session(self, session: Session) -> Skip | None:
        """Where the session has one turn, or no turn recorded what the user said, or none what the
        agent answered.
        """
        if len(session.traces) < 2:
            return Skip("The session has one turn: task_completion judges it.", "not_applicable")
        for fact in _FACTS:
            if not any(_is_whole(trace, fact) for trace in session.traces):
                is_damaged = any(fact in trace.damaged for trace in session.traces)
                what = (
                    f"In no turn of the session was {fact}"
                    f" recorded{' whole' if is_damaged else ''}."
                )
                return Skip(what, "damaged" if is_damaged else "not_recorded")
        return None

    def settle(self, session: Session, answers: Answers) -> Score | None:
        """The score, as soon as the one question is answered."""
        completion = answers.get(self.name)
        if completion is None:
            return None
        metadata = {
            "task": completion.task,
            "outcome": completion.outcome,
            "turns": len(session.traces),
        }
        return Score(completion.score, completion.reason, metadata)


def _is_whole(trace: AgentTrace, fact: str) -> bool:
    return getattr(trace, fact) is not None and fact not in trace.damaged
