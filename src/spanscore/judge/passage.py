"""The pieces that a transcript is made of, before it is made to fit."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["frame", "tool", "history", "document", "step"]
Kind: TypeAlias = Literal[
    "note",
    "input",
    "instructions",
    "plan",
    "output",
    "head",
    "arguments",
    "result",
    "error",
    "text",
    "reasoning",
]

Unit: TypeAlias = tuple[Part, int, int]


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a transcript.

    `number` is that of the step, past message, tool or document they belong to, `turn` that of the
    turn in a session, `call` the place of the tool call whose arguments they are. `decisive`: they
    belong to a call that changes something, or to a tool that was called.
    """

    text: str
    part: Part = "frame"
    number: int = 0
    kind: Kind = "note"
    turn: int | None = None
    call: int | None = None
    decisive: bool = False

    @property
    def unit(self) -> Unit:
        """What can only be left out together: a step, a past message, a tool, a document; in
        reading order.
        """
        return (self.part, self.turn or 0, self.number)
