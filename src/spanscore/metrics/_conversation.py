"""What a judge is asked of a whole session: did the user have, in the end, what the user wanted?"""

from typing import Annotated

from pydantic import ConfigDict, Field

from spanscore.metrics._base import Question
from spanscore.metrics._questions import CONDITIONS, FACTS, LACKING, LAST_WORD, MET, UNKNOWN, WISHES
from spanscore.model.options import Described


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
