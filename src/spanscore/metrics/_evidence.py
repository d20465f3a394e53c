"""Tool calls and texts of a trace, read once."""

import string
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

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


_OTHER_PUNCTUATION = (
    "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u2022\u00ab\u00bb\u00a0\n\r\t"
)
_SPACES = str.maketrans(dict.fromkeys(string.punctuation + _OTHER_PUNCTUATION, " "))
_ASCII = bytes(range(128)).decode().lower().translate(_SPACES).encode().ljust(256)

MAX_TEXT_CHARS = 100_000
"""Of any one text, no more than this is read: what a trace holds has no bound of its own."""

_STOP = (
    "a about above after again all also am an and any are as at be because been before being but by"
    " can could d did do does doing done for from give had has have having he her here hi hello him"
    " his how i if in into is it its just ll let like m make me more most my need no not of on once"
    " only or other our out over please re s same she should so some such t tell than thank thanks"
    " that the their them then there these they this those through to too us under until up use"
    " using ve very want was we were what when where which while who whom why will with would you"
    " your yes ok okay sure know show get"
)
STOP_WORDS = frozenset(_STOP.split())
"""English words that say nothing about what a text is about, with what apostrophes leave behind
("don t").
"""

_MAX_LISTED = 10


def plain(text: str) -> str:
    """`text` in lower case, each punctuation mark a space, and a space at both ends: " word " is
    then a whole word.

    >>> plain("Fly to New-York!")
    ' fly to new york  '
    """
    text = text[:MAX_TEXT_CHARS]
    if text.isascii():  # the same by a table of bytes, in a fifth of the time
        return f" {text.encode().translate(_ASCII).decode()} "
    return f" {text.lower().translate(_SPACES)} "


def counted(count: int, thing: str) -> str:
    """A number of things, in words for a reason.

    >>> counted(1, "call"), counted(2, "call")
    ('1 call', '2 calls')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def listed(parts: Sequence[str]) -> str:
    """The first ten of `parts`, and how many more there are: a reason is for reading.

    >>> listed(["one", "two"]), listed(["x"] * 12)[-12:]
    ('one; two', 'x; x; 2 more')
    """
    more = len(parts) - _MAX_LISTED
    return "; ".join(parts) if more <= 0 else "; ".join([*parts[:_MAX_LISTED], f"{more} more"])
