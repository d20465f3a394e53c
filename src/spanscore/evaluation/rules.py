"""Rules: which traces are evaluated, and how often."""

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator

from spanscore.errors import nearest
from spanscore.judge.config import Changes
from spanscore.model.options import Options, duration_ns
from spanscore.model.span import Scalar, Value
from spanscore.model.trace import TAGS, AgentTrace, tags_of

STATUS = "otel.status_code"
"""The name under which OpenTelemetry writes a span's status where it has no field of its own."""

MAX_TEXT = 1_000
"""Characters of a text in a condition; of a longer value of a span only so many are kept."""

_ENVIRONMENT = "langfuse.environment"
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")
_BOUNDS = ("at_least", "above", "at_most", "below")

Test: TypeAlias = Callable[[AgentTrace], bool]
_Read: TypeAlias = Callable[[AgentTrace], Sequence[Scalar]]
_Holds: TypeAlias = Callable[[Sequence[Scalar]], bool]
"""Whether the values that a trace has under one key, none where it is not recorded, meet a
condition: one that does is enough.
"""
_Condition: TypeAlias = Callable[[Any], _Holds]
"""Makes a condition of what is written; raises ValueError where that is none."""


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


def text_condition(given: Any) -> _Holds:
    """The condition on a text. Raises ValueError."""
    return _exists(given) if isinstance(given, Mapping) else _one_of(given)


def value_condition(given: Any) -> _Holds:
    """The condition on an attribute of any type. Raises ValueError."""
    if not isinstance(given, Mapping):
        return _one_of(given)
    return _exists(given) if "exists" in given else number_condition(given)


def duration_condition(given: Any) -> _Holds:
    """The condition on a duration, in nanoseconds. Raises ValueError."""
    return _between(given, duration_ns, "60s")


def number_condition(given: Any) -> _Holds:
    """The condition on a number. Raises ValueError."""
    return _between(given, _plain_number, "500")


def _exists(given: Mapping[str, Any]) -> _Holds:
    wanted = given.get("exists")
    if set(given) != {"exists"} or not isinstance(wanted, bool):
        raise ValueError("write a text, a list of texts, or `{exists: true}` or `{exists: false}`")
    return lambda values: bool(values) is wanted


def _one_of(given: Any) -> _Holds:
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise ValueError("the list is empty: nothing can be one of these; name at least one")
    literals = [_literal(x) for x in listed]
    texts = frozenset(x for x in literals if "*" not in x)
    patterns = [x.split("*") for x in literals if "*" in x]
    if not patterns:
        return lambda values: any(as_text(x) in texts for x in values)

    def holds(values: Sequence[Scalar]) -> bool:
        found = [as_text(x) for x in values]
        return any(x in texts or any(_is_like(x, y) for y in patterns) for x in found)

    return holds


def _literal(given: Any) -> str:
    if not isinstance(given, str | bool | int | float) or given != given:  # noqa: PLR0124 - not a number
        raise ValueError(f"{given!r} is no text, number or truth value")
    text = as_text(given)
    if len(text) > MAX_TEXT:
        raise ValueError(
            f"a text of {len(text)} characters; write at most {MAX_TEXT}, with `*` for the rest"
        )
    return text


def _between(given: Any, read: Callable[[Any], float], example: str) -> _Holds:
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

    def has(number: float) -> bool:
        above = number > low if open_low else number >= low
        return above and (number < high if open_high else number <= high)

    return lambda values: any(x is not None and has(x) for x in map(_number, values))


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


def _written(condition: _Condition) -> PlainValidator:
    """Refuses what is no such condition, and keeps what is written."""

    def checked(given: Any) -> Any:
        condition(given)
        return given

    return PlainValidator(checked)


Text = Annotated[
    Any, _written(text_condition), WithJsonSchema({"anyOf": [*_ONE_OF["anyOf"], _EXISTS]})
]
"""A field that is a condition on a text."""

AttributeValue = Annotated[
    Any,
    _written(value_condition),
    WithJsonSchema({"anyOf": [*_ONE_OF["anyOf"], _EXISTS, _bounds({"type": "number"})]}),
]
"""A field that is a condition on an attribute."""

Durations = Annotated[
    Any, _written(duration_condition), WithJsonSchema(_bounds({"type": "string"}))
]
"""A field that is a condition on a duration; its numbers are nanoseconds."""

Numbers = Annotated[Any, _written(number_condition), WithJsonSchema(_bounds({"type": "number"}))]
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


def attribute_names(selectors: Iterable[Selector]) -> frozenset[str]:
    """The attributes of spans that these selectors read, and those with tags, which analytics reads
    too; `otel.status_code` stands for the span's status.
    """
    return frozenset(TAGS).union(*map(_names, selectors))


def _names(selector: Selector) -> Iterator[str]:
    yield from selector.attributes
    if selector.environment is not None:
        yield _ENVIRONMENT
    if selector.error is not None:
        yield STATUS
    inner = [*(selector.any_of or ()), *([selector.none_of] if selector.none_of else ())]
    for selector_within in inner:
        yield from _names(selector_within)


def environment(trace: AgentTrace) -> list[str]:
    """Where a trace's agent runs: one text, or none."""
    resource = trace.target.resource
    named = next(
        (x for key in _ENVIRONMENTS if isinstance(x := resource.get(key), str) and x), None
    )
    if named is not None:
        return [named]
    return [x for x in trace.attributes.get(_ENVIRONMENT, ()) if isinstance(x, str)]


def has_failed(trace: AgentTrace) -> bool:
    """Whether a tool call failed, or a span has the status error."""
    if "ERROR" in trace.attributes.get(STATUS, ()):
        return True
    return any(x.error is not None for x in trace.tool_calls or ())


DEFAULT = "default"
"""What traces that no rule takes are counted under; no rule can have this name."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

_MAX_RULES = 200


def _named_or_none(given: Any) -> Any:
    if given == "none" or isinstance(given, Mapping):
        return given
    raise ValueError("write the metrics, by name, each with its options or with nothing; or none")


class Rule(Options):
    """What holds for the traces that it takes, in place of the configuration of the same name."""

    name: str = Field(pattern=NAME_PATTERN)
    """What the rule is called; each score has the name of the rule that decided it."""

    when: Selector = Selector()
    """The traces that it takes; without it, all that no earlier rule takes."""

    metrics: Annotated[
        Literal["none"] | dict[str, dict[str, Any] | bool | None], BeforeValidator(_named_or_none)
    ] = {}
    """The metrics to run besides those that are configured, by name, each with its options or with
    nothing; also other options of those. `false` in place of options: it does not run. `none`:
    nothing is measured.
    """

    default_metrics: bool = True
    """Whether what is configured otherwise runs beside what `metrics` names; false: only these."""

    rubric: bool | None = None
    """Whether the configured rubric runs. Not set: as `default_metrics`."""

    thresholds: dict[str, float] = {}
    """The score from which on the label is pass, by metric."""

    judge: Changes | None = None
    """What of `judge` is different: another model, or other parameters.

    What it costs is paid from the same budget.
    """

    sampling: float | None = Field(default=None, ge=0, le=1)
    """The share that is evaluated, as `evaluation.sampling`. Not set: the share there."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, given: Any) -> Any:
        """A key with nothing under it is as if it were not there."""
        return (
            {name: x for name, x in given.items() if x is not None}
            if isinstance(given, Mapping)
            else given
        )

    def narrowed(self, names: Collection[str], *, has_rubric: bool) -> Self:
        """This rule where only metrics of these names, and the rubric or not, are to run."""
        metrics = self.metrics
        if isinstance(metrics, dict):
            metrics = {name: x for name, x in metrics.items() if name in names or x is False}
        thresholds = {
            name: threshold for name, threshold in self.thresholds.items() if name in names
        }
        rubric = self.rubric if has_rubric else None
        return self.model_copy(
            update={"metrics": metrics, "thresholds": thresholds, "rubric": rubric}
        )

    @property
    def measures(self) -> bool:
        """Whether anything is measured."""
        return self.metrics != "none"


def check_rules(rules: Sequence[Rule]) -> None:
    """Raise ValueError on rules of one name, and on one that can never take a trace."""
    if len(rules) > _MAX_RULES:
        raise ValueError(f"rules: there are {len(rules)}; write at most {_MAX_RULES}")
    for place, rule in enumerate(rules):
        where = f"rules.{place} ({rule.name})"
        if rule.name == DEFAULT:
            raise ValueError(
                f"{where}: {DEFAULT} stands for what no rule takes; choose another name"
            )
        for earlier in rules[:place]:
            if earlier.name == rule.name:
                raise ValueError(f"{where}: an earlier rule has this name; choose another")
            if covers(earlier.when, rule.when):
                raise ValueError(
                    f"{where}: can never match, since the earlier rule {earlier.name} takes all"
                    " that it would take; put it before that one"
                )


class _Applied(NamedTuple):
    """A condition of a selector: its key, what reads the values, and what is written of them."""

    key: tuple[str, str]
    read: _Read
    condition: _Condition
    written: Any

    def test(self) -> Test:
        """The condition on a trace."""
        read, holds = self.read, self.condition(self.written)
        return lambda trace: holds(read(trace))


def _conditions(selector: Selector) -> Iterator[_Applied]:
    """The conditions on values, in the order of what they cost."""
    of_facts = [("", name, selector, *x) for name, x in _FACTS.items()]
    of_tokens = [("tokens", name, selector.tokens, *x) for name, x in _TOKENS.items()]
    for group, name, holder, read, condition in of_facts + of_tokens:
        written = getattr(holder, name, None)
        if written is not None:
            yield _Applied((group, name), read, condition, written)
    for name, written in selector.resource.items():
        yield _Applied(("resource", name), _of_resource(name), value_condition, written)
    for name, written in selector.attributes.items():
        yield _Applied(("attributes", name), _of_spans(name), value_condition, written)


def covers(wide: Selector, narrow: Selector) -> bool:
    """Whether `wide` takes all traces that `narrow` takes, as far as it has no condition that
    `narrow` lacks.
    """
    has = {x.key: x.written for x in _conditions(narrow)}
    if not all(x.key in has and has[x.key] == x.written for x in _conditions(wide)):
        return False
    if wide.none_of not in (None, narrow.none_of):
        return False
    return wide.any_of in (None, narrow.any_of) or any(covers(x, narrow) for x in wide.any_of or ())


_ALL = 1 << 32


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a trace or session: by which rule (None: by none), and with what
    chance it is evaluated.

    `measures` is False where the rule has nothing measured; `share` is then 0.
    """

    rule: str | None
    share: float
    measures: bool = True

    def takes_in(self, subject_id: str, drawn: float = 0.0) -> bool:
        """Whether the subject of that id is evaluated; `drawn` is the chance with which it already
        was, else 0.
        """
        return self.share > 0 and draw(subject_id) < max(self.share, drawn)


class Rules:
    """The rules of a configuration, in their order. Immutable."""

    def __init__(self, rules: Iterable[Rule], share: float) -> None:
        """`share` is that of traces that no rule takes, and of rules that give none."""
        self._default = Decision(None, share)
        self._rules = [(compiled(rule.when), _decision(rule, share)) for rule in rules]

    def decide(self, trace: AgentTrace) -> Decision:
        """By the first rule that takes the trace."""
        for takes, decision in self._rules:
            if takes(trace):
                return decision
        return self._default

    def decide_session(self, traces: Sequence[AgentTrace]) -> Decision:
        """By the rule with the greatest share among those of the session's traces; of equal ones,
        the first.

        Traces of which nothing is measured have no part in it.
        """
        order = {decision.rule: place for place, (_, decision) in enumerate(self._rules)}
        found = [
            (x.share, -order.get(x.rule, len(order)), x)
            for x in map(self.decide, traces)
            if x.measures
        ]
        return max(found, key=itemgetter(0, 1))[2] if found else Decision(None, 0.0, measures=False)


def draw(subject_id: str) -> float:
    """The place of an id in [0, 1): what has a chance above it is evaluated. It never changes.

    >>> draw("4bf92f3577b34da6a3ce929d0e0e4736") == draw("4bf92f3577b34da6a3ce929d0e0e4736")
    True
    """
    return zlib.crc32(subject_id.encode("utf-8", "surrogatepass")) / _ALL


def _decision(rule: Rule, share: float) -> Decision:
    if not rule.measures:
        return Decision(rule.name, 0.0, measures=False)
    return Decision(rule.name, share if rule.sampling is None else rule.sampling)


def compiled(selector: Selector) -> Test:
    """The selector as one function, its conditions in the order of what they cost."""
    tests = [x.test() for x in _conditions(selector)]
    if selector.any_of is not None:
        tests.append(_any_of(selector.any_of))
    if selector.none_of is not None:
        excluded = compiled(selector.none_of)
        tests.append(lambda trace: not excluded(trace))
    if not tests:
        return lambda _trace: True
    if len(tests) == 1:
        return tests[0]

    def takes(trace: AgentTrace) -> bool:
        for test in tests:  # noqa: SIM110 - asked of every trace: a generator would take twice as long
            if not test(trace):
                return False
        return True

    return takes


def _any_of(selectors: Iterable[Selector]) -> Test:
    tests = [compiled(x) for x in selectors]
    return lambda trace: any(test(trace) for test in tests)


def _of_resource(name: str) -> _Read:
    return lambda trace: _scalars(trace.target.resource.get(name))


def _of_spans(name: str) -> _Read:
    return lambda trace: trace.attributes.get(name, ())


def _scalars(value: Value) -> list[Scalar]:
    if isinstance(value, list):
        return [x for x in value if isinstance(x, str | bool | int | float)]
    return [value] if isinstance(value, str | bool | int | float) else []


def _one(value: Scalar | None) -> Sequence[Scalar]:
    return () if value is None else (value,)


def _duration_ns(trace: AgentTrace) -> Sequence[Scalar]:
    return (trace.ended_ns - trace.started_ns,) if trace.started_ns and trace.ended_ns else ()


def _total_tokens(trace: AgentTrace) -> Sequence[Scalar]:
    given, produced = trace.usage.input_tokens, trace.usage.output_tokens
    return () if given is None or produced is None else (given + produced,)


def _is(wanted: bool) -> _Holds:
    return lambda values: values[0] is wanted


_FACTS: dict[str, tuple[_Read, _Condition]] = {
    "service": (lambda trace: _one(trace.service_name), text_condition),
    "agent": (lambda trace: _one(trace.agent_name), text_condition),
    "session": (lambda trace: _one(trace.session_id), text_condition),
    "user": (lambda trace: _one(trace.user_id), text_condition),
    "environment": (environment, text_condition),
    "duration": (_duration_ns, duration_condition),
    "tool": (lambda trace: [x.name for x in trace.tool_calls or ()], text_condition),
    "tags": (tags_of, text_condition),
    "outcome": (lambda trace: [trace.outcome], text_condition),
    "error": (lambda trace: [has_failed(trace)], _is),
}

_TOKENS: dict[str, tuple[_Read, _Condition]] = {
    "input": (lambda trace: _one(trace.usage.input_tokens), number_condition),
    "output": (lambda trace: _one(trace.usage.output_tokens), number_condition),
    "total": (_total_tokens, number_condition),
}
