"""The places where one tool call appears, each of which may record some of its facts."""

from dataclasses import dataclass
from typing import TypeAlias

from spanscore.model.json import Json
from spanscore.model.record import record
from spanscore.model.step import Step, ToolResult
from spanscore.model.trace import RequestedCall

Order: TypeAlias = tuple[int, int, int]
"""Sorts calls by when they were requested."""


@record()
class Requested:
    """A call in messages: as a model's output requests it, or as the input of the next model call
    repeats it.
    """

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
    """A result of a tool in the input of a later model call."""

    step: Step
    result: ToolResult
    damaged: bool


@dataclass(slots=True)
class Call:
    """Where one tool call shows. Its name, id and arguments are what these places record so far."""

    order: Order
    name: str
    call_id: str | None = None
    arguments: Json = None
    request: Requested | None = None
    ran: Executed | None = None
    repeated: Requested | None = None
    returned: Returned | None = None

    @property
    def has_result(self) -> bool:
        """Whether any place records that the tool returned."""
        return self.returned is not None or (self.ran is not None and self.ran.step.has_result)
