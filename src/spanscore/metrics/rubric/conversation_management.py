"""Conversation management: ambiguity, errors, closing."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class ConversationManagement(Criterial):
    """Whether the agent cleared up what was ambiguous, recovered from errors and brought the
    conversation to an end.

    Without a model it is skipped.

    >>> ConversationManagement.criterion.tier
    'process'
    """

    name: ClassVar[str] = "rubric.conversation_management"
    summary: ClassVar[str] = (
        "Were ambiguity, errors and the closing of the conversation dealt with well?"
    )
    criterion: ClassVar[Criterion] = Criterion(
        id="conversation_management",
        display_name="Conversation management",
        description=(
            "Were ambiguity, errors and the end of the conversation dealt with well? What can be"
            " meant in two ways that lead to different ends is asked about before acting on it. An"
            " error, of the agent or of a tool, is owned to and put right or led to a next step."
            " The end says where the matter stands; where the user breaks off, none is owed."
        ),
        tier="process",
        weight=0.10,
        levels=(
            "There was no management: the agent froze or was incoherent.",
            "It was poor throughout.",
            "There are several failures, and the conversation is disjointed.",
            (
                "There is one failure that matters: one reading was acted on without asking, an"
                " error was passed over, or the user had to say a thing again."
            ),
            "One chance was missed, such as to confirm what was done or to say what comes next.",
            (
                "What was ambiguous was cleared up, errors were owned to and put right, and the end"
                " says where the matter stands."
            ),
        ),
        no_occasion=(
            "in a single exchange nothing was ambiguous, nothing went wrong and nothing was left"
            " open"
        ),
        in_defaults=True,
    )
