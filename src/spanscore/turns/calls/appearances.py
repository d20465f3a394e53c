"""A tool call while its facts come together: the places where it shows, each of which may say something of it."""

from dataclasses import dataclass
from typing import TypeAlias

from spanscore.model.json import Json
from spanscore.model.record import record
from spanscore.model.step import Step, ToolResult
from spanscore.model.trace import RequestedCall

Order: TypeAlias = tuple[int, int, int]
"""Sorts calls by when they were asked for."""


@record()
class Requested:
    """A call in messages: as a model's output requests it, or as the input of the next model call repeats it."""

    step: Step
    agent: str | None
    call: RequestedCall
    damaged: bool


@record()
class Executed:
    """A tool's span, with the id that identifies it and its arguments by name."""

    step: Step
    agent: str | None
    call_id: str | None
    arguments: Json


@record()
class Returned:
    """What the next model call was told that a tool returned."""

    step: Step
    result: ToolResult
    damaged: bool


@dataclass(slots=True)
class Call:
    """Where one tool call shows. Its name, id and arguments are what these places tell so far."""

    order: Order
    name: str
    call_id: str | None = None
    arguments: Json = None
    request: Requested | None = None
    ran: Executed | None = None
    repeated: Requested | None = None
    told: Returned | None = None

    @property
    def has_result(self) -> bool:
        """Whether any place says what came back."""
        return self.told is not None or (self.ran is not None and self.ran.step.has_result)
