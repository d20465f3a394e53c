"""Rules as the engine asks them: compiled once, they say which one takes a trace and what chance it
has.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from spanscore.evaluation.rules import attributes
from spanscore.evaluation.rules.conditions import Condition
from spanscore.evaluation.rules.config import Rule
from spanscore.evaluation.rules.selector import Selector
from spanscore.model.span import Scalar, Value
from spanscore.model.tags import tags_of
from spanscore.model.trace import AgentTrace

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
    return lambda trace: attributes.has_failed(trace) is wanted


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
    "environment": attributes.environment,
    "duration": _duration_ns,
    "tool": lambda trace: [x.name for x in trace.tool_calls or ()],
    "tags": tags_of,
}

_TOKENS: dict[str, _Read] = {
    "input": lambda trace: _one(trace.usage.input_tokens),
    "output": lambda trace: _one(trace.usage.output_tokens),
    "total": _total_tokens,
}
