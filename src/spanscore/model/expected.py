"""What the author of an agent, or of its test, stated in the trace that a turn should come to."""

from collections.abc import Mapping
from typing import Any

from spanscore.model.json import Json
from spanscore.model.record import record


@record()
class ExpectedTool:
    """A tool call that should be made.

    `arguments` None: any; `step` None: its place in the list, counted from 1.
    """

    name: str
    arguments: dict[str, Json] | None = None
    step: int | None = None


@record(kw_only=True)
class Expected:
    """What a turn should come to; None and an empty tuple: nothing is stated.

    `outcomes` are statements that should be true in the end. `in_order` None: the author did not
    say whether the order of the tool calls matters.
    """

    answer: str | None = None
    tools: tuple[ExpectedTool, ...] | None = None
    outcomes: tuple[str, ...] = ()
    in_order: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The object under `expected` of an agent trace's JSON."""
        tools = None if self.tools is None else [_plain(x) for x in self.tools]
        return {
            "answer": self.answer,
            "tools": tools,
            "outcomes": list(self.outcomes),
            "in_order": self.in_order,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Expected":
        """The inverse of `to_json`. Raises KeyError or TypeError on an object of another shape."""
        tools = None if data["tools"] is None else tuple(ExpectedTool(**x) for x in data["tools"])
        return cls(
            answer=data["answer"],
            tools=tools,
            outcomes=tuple(data["outcomes"]),
            in_order=data["in_order"],
        )


def _plain(tool: ExpectedTool) -> dict[str, Any]:
    return {"name": tool.name, "arguments": tool.arguments, "step": tool.step}
