"""Conditions that select traces."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from spanscore.errors import nearest
from spanscore.model.options import Options, duration_ns
from spanscore.model.span import Scalar

MAX_TEXT = 1_000
"""Characters of a text in a condition; of a longer value of a span only so many are kept."""

_BOUNDS = ("at_least", "above", "at_most", "below")


class Condition(Protocol):
    """A condition on the values that a trace has under one key; none where the key is not
    recorded.
    """

    @property
    def written(self) -> Any:
        """As the configuration has it."""
        ...

    def holds(self, values: Sequence[Scalar], /) -> bool:
        """Whether the values meet it: one that does is enough."""
        ...

    def covers(self, other: Any, /) -> bool:
        """Whether it holds wherever `other` does, as far as that shows."""
        ...


@dataclass(frozen=True, slots=True)
class Exists:
    """There is a value, or there is none."""

    wanted: bool
    written: Any = field(default=None, compare=False)

    def holds(self, values: Sequence[Scalar]) -> bool:
        """See `Condition`."""
        return bool(values) is self.wanted

    def covers(self, other: Any) -> bool:
        """See `Condition`: whatever asks for some value asks for there being one."""
        return other == self or (self.wanted and isinstance(other, OneOf | Between))


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value is one of `texts`, or like one of `patterns`: the pieces of a text around each
    `*`.
    """

    texts: frozenset[str]
    patterns: tuple[tuple[str, ...], ...] = ()
    written: Any = field(default=None, compare=False)

    def holds(self, values: Sequence[Scalar]) -> bool:
        """See `Condition`."""
        return any(self._has(as_text(x)) for x in values)

    def covers(self, other: Any) -> bool:
        """See `Condition`."""
        if not isinstance(other, OneOf):
            return False
        return all(map(self._has, other.texts)) and all(
            x in self.patterns or ("", "") in self.patterns for x in other.patterns
        )

    def _has(self, text: str) -> bool:
        return text in self.texts or any(_is_like(text, x) for x in self.patterns)


@dataclass(frozen=True, slots=True)
class Between:
    """A value is a number from `low` to `high`; `open_low` and `open_high`: but not that number
    itself.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    written: Any = field(default=None, compare=False)

    def holds(self, values: Sequence[Scalar]) -> bool:
        """See `Condition`."""
        return any(number is not None and self._has(number) for number in map(_number, values))

    def covers(self, other: Any) -> bool:
        """See `Condition`."""
        if not isinstance(other, Between):
            return False
        low = self.low < other.low or (self.low == other.low and self.open_low <= other.open_low)
        high = self.high > other.high or (
            self.high == other.high and self.open_high <= other.open_high
        )
        return low and high

    def _has(self, number: float) -> bool:
        above = number > self.low if self.open_low else number >= self.low
        return above and (number < self.high if self.open_high else number <= self.high)


def as_text(value: Scalar) -> str:
    """A value as conditions compare it.

    >>> as_text(True), as_text(3.0), as_text("eu")
    ('true', '3', 'eu')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def read_text(given: Any) -> Condition:
    """The condition on a text. Raises ValueError."""
    return _exists(given) if isinstance(given, Mapping) else _one_of(given)


def read_value(given: Any) -> Condition:
    """The condition on an attribute of any type. Raises ValueError."""
    if not isinstance(given, Mapping):
        return _one_of(given)
    return _exists(given) if "exists" in given else _between(given, _plain_number, "500")


def read_duration(given: Any) -> Between:
    """The condition on a duration, in nanoseconds. Raises ValueError."""
    return _between(given, duration_ns, "60s")


def read_number(given: Any) -> Between:
    """The condition on a number. Raises ValueError."""
    return _between(given, _plain_number, "500")


def _exists(given: Mapping[str, Any]) -> Exists:
    if set(given) != {"exists"} or not isinstance(given["exists"], bool):
        raise ValueError("write a text, a list of texts, or `{exists: true}` or `{exists: false}`")
    return Exists(given["exists"], written=given)


def _one_of(given: Any) -> OneOf:
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise ValueError("the list is empty: nothing can be one of these; name at least one")
    texts = [_literal(x) for x in listed]
    patterns = [tuple(x.split("*")) for x in texts if "*" in x]
    return OneOf(frozenset(x for x in texts if "*" not in x), tuple(patterns), written=given)


def _literal(given: Any) -> str:
    if not isinstance(given, str | bool | int | float) or given != given:  # noqa: PLR0124 - not a number
        raise ValueError(f"{given!r} is no text, number or truth value")
    text = as_text(given)
    if len(text) > MAX_TEXT:
        raise ValueError(
            f"a text of {len(text)} characters; write at most {MAX_TEXT}, with `*` for the rest"
        )
    return text


def _between(given: Any, read: Callable[[Any], float], example: str) -> Between:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            f"write bounds, such as {{at_least: {example}}}; there are {', '.join(_BOUNDS)}"
        )
    for name in given:
        if name not in _BOUNDS:
            raise ValueError(f"unknown key {name!r}; {nearest(str(name), _BOUNDS)}")
    for one, other in (("at_least", "above"), ("at_most", "below")):
        if one in given and other in given:
            raise ValueError(f"{one} and {other} are the same bound; write one of them")
    limits = {name: read(x) for name, x in given.items()}
    low, open_low = limits.get("above", limits.get("at_least", -math.inf)), "above" in limits
    high, open_high = limits.get("below", limits.get("at_most", math.inf)), "below" in limits
    if low > high or (low == high and (open_low or open_high)):
        raise ValueError("no number lies between these bounds, so the rule would never match")
    return Between(low, high, open_low, open_high, written=given)


def _plain_number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError(f"{given!r} is no number")
    return given


def _number(value: Scalar) -> float | None:
    """A value as a number; of a text, what it spells, as many senders write numbers."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, str):
        return value
    try:
        number = float(value) if len(value) < 40 else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _is_like(text: str, pieces: Sequence[str]) -> bool:
    """Whether `text` is the pieces in their order, with anything between them."""
    first, last = pieces[0], pieces[-1]
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


_SCALAR = {"type": ["string", "number", "boolean"]}
_ONE_OF: dict[str, Any] = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]}
_EXISTS = {"type": "object", "properties": {"exists": {"type": "boolean"}}, "required": ["exists"]}


def _bounds(of: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict.fromkeys(_BOUNDS, of),
        "additionalProperties": False,
        "minProperties": 1,
    }


_WRITTEN = PlainSerializer(lambda condition: condition.written)

Text = Annotated[
    Condition,
    PlainValidator(read_text),
    _WRITTEN,
    WithJsonSchema({"anyOf": [*_ONE_OF["anyOf"], _EXISTS]}),
]
"""A field that is a condition on a text."""

AttributeValue = Annotated[
    Condition,
    PlainValidator(read_value),
    _WRITTEN,
    WithJsonSchema({"anyOf": [*_ONE_OF["anyOf"], _EXISTS, _bounds({"type": "number"})]}),
]
"""A field that is a condition on an attribute."""

Durations = Annotated[
    Between, PlainValidator(read_duration), _WRITTEN, WithJsonSchema(_bounds({"type": "string"}))
]
"""A field that is a condition on a duration; its numbers are nanoseconds."""

Numbers = Annotated[
    Between, PlainValidator(read_number), _WRITTEN, WithJsonSchema(_bounds({"type": "number"}))
]
"""A field that is a condition on a number."""


class Tokens(Options):
    """Conditions on the tokens of a trace, each model call counted once.

    What is not recorded meets none.
    """

    input: Numbers | None = None
    """Tokens that models were given."""

    output: Numbers | None = None
    """Tokens that models produced."""

    total: Numbers | None = None
    """The two together, where both are recorded."""


class Selector(Options):
    """The traces that a rule takes: those that meet all of these conditions; without any, all
    traces.

    A condition on a text is the text, a list of which one fits, or `{exists: true}` or `{exists:
    false}`; `*` stands for any characters. A condition on a number has bounds: `at_least`, `above`,
    `at_most`, `below`. What a trace does not record meets none but `{exists: false}`.
    """

    service: Text | None = None
    """`service.name` of the evaluated span's resource."""

    agent: Text | None = None
    """The agent's name."""

    environment: Text | None = None
    """Where it runs: the resource's `deployment.environment.name`, or `deployment.environment`, or
    Langfuse's `langfuse.environment`.
    """

    session: Text | None = None
    """The session's id."""

    user: Text | None = None
    """The user's id."""

    tags: Text | None = None
    """One of the tags of the spans, as OpenInference, Langfuse, LangSmith, Logfire, Traceloop,
    Laminar, Braintrust, Opik and DeepEval write them.
    """

    tool: Text | None = None
    """The name of a tool that was called."""

    error: bool | None = None
    """Whether a tool call failed, or a span of the turn has the status error."""

    outcome: Text | None = None
    """How the turn ended: `answered`, `failed`, `cancelled`, `waiting` or `unknown`."""

    duration: Durations | None = None
    """How long the turn took, such as `{at_least: 60s}`."""

    tokens: Tokens | None = None
    """The tokens that it took, such as `{total: {above: 50000}}`."""

    resource: dict[str, AttributeValue] = {}
    """Attributes of the evaluated span's resource, by name."""

    attributes: dict[str, AttributeValue] = {}
    """Attributes of the turn's spans, by name: one span that meets the condition is enough. What
    lies around the turn counts too, such as a request's span.
    """

    any_of: list["Selector"] | None = Field(default=None, alias="any")
    """One of these is met."""

    none_of: "Selector | None" = Field(default=None, alias="not")
    """This is not met."""

    @model_validator(mode="after")
    def _has_alternatives(self) -> Self:
        if self.any_of == []:
            raise ValueError(
                "any: the list is empty: nothing can be met; name at least one alternative"
            )
        return self


def covers(wide: Selector, narrow: Selector) -> bool:
    """Whether `wide` takes all traces that `narrow` takes, as far as that shows from one condition
    at a time.
    """
    has = dict(_conditions(narrow))
    if not all(_is_met(condition, has.get(key)) for key, condition in _conditions(wide)):
        return False
    return _has_alternative(wide, narrow) and _has_exclusion(wide, narrow)


def _has_alternative(wide: Selector, narrow: Selector) -> bool:
    """Whether one of the alternatives of `wide` holds wherever `narrow` does."""
    if wide.any_of is None or wide.any_of == narrow.any_of:
        return True
    return any(covers(x, narrow) for x in wide.any_of)


def _has_exclusion(wide: Selector, narrow: Selector) -> bool:
    """Whether what `wide` excludes is excluded by `narrow` too."""
    if wide.none_of is None:
        return True
    return narrow.none_of is not None and covers(narrow.none_of, wide.none_of)


def _is_met(condition: Any, narrower: Any) -> bool:
    """Whether a condition holds wherever `narrower`, on the same key, does; None: there is no
    such.
    """
    if narrower is None:
        return False
    return bool(
        condition == narrower if isinstance(condition, bool) else condition.covers(narrower)
    )


def _conditions(selector: Selector) -> Iterator[tuple[tuple[str, str], Any]]:
    """Each condition by its key."""
    for name in (
        "service",
        "agent",
        "environment",
        "session",
        "user",
        "tags",
        "tool",
        "outcome",
        "error",
        "duration",
    ):
        condition = getattr(selector, name)
        if condition is not None:
            yield (name, ""), condition
    for name in ("input", "output", "total"):
        condition = getattr(selector.tokens, name, None)
        if condition is not None:
            yield ("tokens", name), condition
    for group in ("resource", "attributes"):
        for name, condition in getattr(selector, group).items():
            yield (group, name), condition
