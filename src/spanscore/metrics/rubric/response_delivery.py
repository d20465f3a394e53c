"""Response delivery: is it concise, natural, speakable?"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.rubric._criteria import Criterial, Criterion


@dataclass(frozen=True)
class ResponseDelivery(Criterial):
    """Whether the agent's answers are concise, natural, fit to be spoken, and do not repeat
    themselves.

    Without a model it is skipped.

    >>> ResponseDelivery.criterion.tier
    'delivery'
    """

    name: ClassVar[str] = "rubric.response_delivery"
    summary: ClassVar[str] = (
        "Is what the agent says concise, natural, speakable and not repetitive?"
    )
    criterion: ClassVar[Criterion] = Criterion(
        id="response_delivery",
        display_name="Response delivery",
        description=(
            "Is what the agent says concise, natural, in the user's language, fit to be spoken and"
            " not repetitive? Unspeakable are, for instance, tables, markup, raw identifiers and"
            " long lists, unless the user asked for one. The substance does not count here."
        ),
        tier="delivery",
        weight=0.10,
        levels=(
            (
                "The answers are unsuitable for a conversation: empty, raw data, or in a language"
                " the user does not use."
            ),
            "Problems are everywhere.",
            (
                "There are several problems; the agent sounds robotic, goes on too long or repeats"
                " itself."
            ),
            (
                "There is one problem that matters, such as two questions in one turn or an answer"
                " buried in words."
            ),
            "There is one minor problem.",
            "All answers are concise and natural, and nothing in them cannot be spoken.",
        ),
        needs=("final_output",),
        in_defaults=True,
    )
