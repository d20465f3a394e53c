"""Rules: which traces are evaluated, and how often."""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from spanscore.evaluation.rules.selector import MAX_TEXT, Condition, Selector, covers
from spanscore.judge.config import Changes
from spanscore.model.options import Options
from spanscore.model.span import Scalar, Value
from spanscore.model.trace import TAGS, AgentTrace, tags_of

STATUS = "otel.status_code"
"""The name under which OpenTelemetry writes a span's status where it has no field of its own."""

_ENVIRONMENT = "langfuse.environment"
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")


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


__all__ = [
    "DEFAULT",
    "MAX_TEXT",
    "NAME_PATTERN",
    "STATUS",
    "Decision",
    "Rule",
    "Rules",
    "Selector",
    "attribute_names",
    "check_rules",
    "draw",
]


_ALL = 1 << 32

Test: TypeAlias = Callable[[AgentTrace], bool]
_Read: TypeAlias = Callable[[AgentTrace], Sequence[Scalar]]


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
    tests = list(_tests(selector))
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


def _tests(selector: Selector) -> Iterator[Test]:
    for read, condition in _readings(selector):
        yield _reading(read, condition)
    if selector.error is not None:
        yield _failing(wanted=selector.error)
    if selector.any_of is not None:
        yield _alternatives(selector.any_of)
    if selector.none_of is not None:
        yield _negated(selector.none_of)


def _readings(selector: Selector) -> Iterator[tuple[_Read, Condition]]:
    """The conditions on values, each with what reads the values."""
    of_facts = [(read, getattr(selector, name)) for name, read in _FACTS.items()]
    of_tokens = [(read, getattr(selector.tokens, name, None)) for name, read in _TOKENS.items()]
    yield from (
        (read, condition) for read, condition in of_facts + of_tokens if condition is not None
    )
    yield from ((_of_resource(name), condition) for name, condition in selector.resource.items())
    yield from ((_of_spans(name), condition) for name, condition in selector.attributes.items())


def _reading(read: _Read, condition: Condition) -> Test:
    holds = condition.holds
    return lambda trace: holds(read(trace))


def _failing(*, wanted: bool) -> Test:
    return lambda trace: has_failed(trace) is wanted


def _alternatives(selectors: Iterable[Selector]) -> Test:
    tests = [compiled(x) for x in selectors]
    return lambda trace: any(test(trace) for test in tests)


def _negated(selector: Selector) -> Test:
    takes = compiled(selector)
    return lambda trace: not takes(trace)


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


_FACTS: dict[str, _Read] = {
    "service": lambda trace: _one(trace.service_name),
    "agent": lambda trace: _one(trace.agent_name),
    "session": lambda trace: _one(trace.session_id),
    "user": lambda trace: _one(trace.user_id),
    "environment": environment,
    "duration": _duration_ns,
    "tool": lambda trace: [x.name for x in trace.tool_calls or ()],
    "tags": tags_of,
    "outcome": lambda trace: [trace.outcome],
}

_TOKENS: dict[str, _Read] = {
    "input": lambda trace: _one(trace.usage.input_tokens),
    "output": lambda trace: _one(trace.usage.output_tokens),
    "total": _total_tokens,
}
