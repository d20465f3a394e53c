"""What a dialect is: a name, the spans it claims, and what it reads from one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.dialects._content import ContentSwitch
from spanscore.dialects._histories import Histories
from spanscore.model.record import record
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Step

Facts: TypeAlias = dict[str, Any]
"""The fields of a Step that a span tells, by name: `kind` always, any of the others."""


@record()
class Context:
    """What is known of a span besides itself.

    `logs` are the log records of the same trace and span id, in order of time. `outermost` says that no span above it
    in the trace is read by any dialect. `histories` remembers the inputs of the trace's model calls.
    """

    logs: Sequence[LogRecord]
    outermost: bool
    histories: Histories


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write an agent's work into spans.

    A span is of this dialect where its scope's name is among `scopes`, it has one of the attributes `keys`, or `claims`
    says so of the span and its log records. Nothing else is asked, since one trace may mix dialects. `read` gives the
    facts of a span that was claimed, and must survive whatever its attributes hold. `marks` are byte strings of which
    any request that holds a span of this dialect contains at least one. `together`, where the spans of a trace must be
    looked at side by side, is given all that were read by this dialect, and gives them back, perhaps with other facts.
    `content` says what turns on the recording of content, where it can be off. `by_hand` says that people write such
    spans themselves, and may set attributes of other conventions on them: these complete what is read.
    """

    name: str
    read: Callable[[Span, Context], Facts]
    marks: tuple[bytes, ...]
    scopes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    claims: Callable[[Span, Sequence[LogRecord]], bool] | None = None
    together: Callable[[Sequence[Step]], Sequence[Step]] | None = None
    content: tuple[ContentSwitch, ...] = ()
    by_hand: bool = False


def text(value: object) -> str | None:
    """`value` where it is text that says something, else None."""
    return value if isinstance(value, str) and value else None


def first_told(attributes: Attributes, keys: tuple[str, ...]) -> Value:
    """The first of the attributes `keys` that the span has, else None."""
    return next((x for x in map(attributes.get, keys) if x is not None), None)


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """The first of the attributes `keys` that is text and says something, else None."""
    return next((x for x in map(attributes.get, keys) if isinstance(x, str) and x), None)


def first_count(attributes: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first of the attributes `keys` that is a number of tokens, else None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (found := count(value)) is not None:
            return found
    return None


def count(value: object) -> int | None:
    """A number of tokens, which some write as text; None for anything else.

    >>> count(12), count("12"), count(12.0), count(True), count(-1), count("many")
    (12, 12, 12, None, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return None
