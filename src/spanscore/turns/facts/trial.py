"""Which test a turn was recorded for: as its spans, those above them and their resource record
it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spanscore.model.span import Attributes, Span
from spanscore.model.trace import Trial
from spanscore.turns.facts.turn_steps import TurnSteps

_SUITE, _RUN, _CASE, _STATUS = (
    "test.suite.name",
    "test.suite.run.id",
    "test.case.id",
    "test.case.result.status",
)
_KEYS = {"suite": _SUITE, "run": _RUN, "case": _CASE, "status": _STATUS}
_NAMED = frozenset(_KEYS.values())
_MAX_CHARS = 256
_MAX_ABOVE = 64


def trial(turn: TurnSteps, target: Span) -> Trial | None:
    """The test; None for a turn that was recorded for none.

    `target` is the span that the turn's scores are put on.

    Each of its facts comes from the span nearest the root that records it, else from the resource:
    a test that wraps the agent's call in a span of its own comes before what the agent passes on.
    """
    found: dict[str, Any] = {}
    for attributes in _attributes(turn, target):
        if not attributes.keys().isdisjoint(_NAMED):
            found |= _recorded(attributes)
    if not found:
        return None
    status = found.get("status")
    return Trial(
        **{
            **found,
            "status": status.lower() if status and status.lower() in {"pass", "fail"} else None,
        }
    )


def _attributes(turn: TurnSteps, target: Span) -> Iterator[Attributes]:
    """The attributes that may name the test, those of the span nearest the root last."""
    yield target.resource.attributes
    for step in reversed(turn.steps):
        if _CASE in step.span.attributes:
            yield step.span.attributes
    span: Span | None = target
    for _ in range(_MAX_ABOVE):
        if span is None:
            return
        yield span.attributes
        span = turn.tree.parent(span)


def _recorded(attributes: Attributes) -> Mapping[str, str]:
    given = {name: attributes[key] for name, key in _KEYS.items() if key in attributes}
    return {
        name: str(value)[:_MAX_CHARS]
        for name, value in given.items()
        if isinstance(value, str | int) and value
    }
