"""Conversation management: ambiguity, errors, closing."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criterion import Criterial, Criterion


@dataclass(frozen=True)
class ConversationManagement(Criterial):
    """Whether the agent cleared up what was ambiguous, recovered from errors and brought the conversation to an end.

    Without a model it is skipped.

    >>> ConversationManagement.criterion.tier
    'process'
    """

    name: ClassVar[str] = "rubric.conversation_management"
    summary: ClassVar[str] = "Were ambiguity, errors and the closing of the conversation dealt with well?"
    criterion: ClassVar[Criterion] = Criterion(
        id="conversation_management",
        display_name="Conversation management",
        description="Were ambiguity, errors and the end of the conversation dealt with well? An error of the agent is "
        "owned and put right; what can be meant in two ways is asked about before acting on it.",
        tier="process",
        weight=0.10,
        levels=(
            "There was no management: the agent froze or was incoherent.",
            "It was poor throughout.",
            "There are several failures, and the conversation is disjointed.",
            "There is one failure that matters.",
            "One chance was missed, such as to confirm or to close.",
            "What was ambiguous was cleared up, errors were owned and put right, and the conversation was closed.",
        ),
        in_defaults=True,
    )
