"""Conversation completion: did the user have, in the end, what the user wanted?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Answers, JudgedSession, Question
from spanscore.metrics._conversation import CONVERSATION_COMPLETION
from spanscore.model.score import Score, Skip
from spanscore.model.trace import AgentTrace, Session

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
