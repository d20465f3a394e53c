"""What a trace's tool calls and texts hold, as far as anything of it is looked at: read off once,
within bounds.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from spanscore.metrics._words import MAX_TEXT_CHARS, plain
from spanscore.model.json import Json, dumps
from spanscore.model.trace import AgentTrace, Tool, ToolCall

MAX_CALLS = 1_000
"""No more of a trace's tool calls are looked at."""
MAX_CALLS_CHARS = 500_000
"""Nor more of all that they hold, arguments and results: about what fits into the context of the
agent's model.
"""
_FactT = TypeVar("_FactT")


class _kept(Generic[_FactT]):  # noqa: N801 - it is used as a decorator
    """A property that is computed once: functools.cached_property, without the lock it takes before
    Python 3.12.
    """

    def __init__(self, compute: Callable[[Any], _FactT]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> _FactT:
        fact = instance.__dict__[self._name] = self._compute(instance)
        return fact


class Evidence:
    """Facts derived from one agent trace, each computed when first asked for and kept.

    Texts are as `plain` gives them; indices are places in `calls`.
    """

    def __init__(self, trace: AgentTrace) -> None:
        self.trace = trace

    @_kept
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that are looked at: the first ones, as many as the bounds allow."""
        return (self.trace.tool_calls or ())[: len(self._texts)]

    @property
    def offered(self) -> tuple[Tool, ...] | None:
        """The tools on offer; None where the trace did not say, or what it said arrived cut or
        redacted.
        """
        return None if "available_tools" in self.trace.damaged else self.trace.available_tools

    @_kept
    def request(self) -> str:
        """The user's input."""
        return plain(self.trace.user_input or "")

    @_kept
    def answer(self) -> str:
        """The final output."""
        return plain(self.trace.final_output or "")

    @_kept
    def results(self) -> list[str]:
        """What each call returned, or the error it ended with; "" where neither was recorded."""
        return [plain(result) for _, result in self._texts]

    @_kept
    def _texts(self) -> list[tuple[str, str]]:
        """The arguments and the result, as text, of each call that is looked at; of the first one
        always.
        """
        found: list[tuple[str, str]] = []
        chars = 0
        for call in (self.trace.tool_calls or ())[:MAX_CALLS]:
            arguments, result = (
                _text(call.arguments),
                _text(call.error if call.result is None else call.result),
            )
            chars += len(arguments) + len(result)
            if found and chars > MAX_CALLS_CHARS:
                break
            found.append((arguments, result))
        return found


def _text(value: Json) -> str:
    if value is None:
        return ""
    return (value if isinstance(value, str) else dumps(value))[:MAX_TEXT_CHARS]
