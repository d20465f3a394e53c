"""The session, user, test and tokens of a turn."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from spanscore.model.span import Attributes, Span
from spanscore.model.step import Step
from spanscore.model.trace import Trial, Usage
from spanscore.turns.dedup import reports
from spanscore.turns.facts.source import AllOf, FirstOf, Source, Sourced
from spanscore.turns.facts.turn_steps import TurnSteps, topmost


def _nearest(field: Literal["session_id", "user_id"], turn: TurnSteps) -> Sourced | None:
    """The id in the step nearest the root that records one."""
    recording = [step for step in turn.steps if getattr(step, field)]
    if not recording:
        return None
    step = min(recording, key=turn.depth)
    return Sourced(step, field, getattr(step, field))


def _of_resource(key: str, turn: TurnSteps) -> Sourced | None:
    """An id among the attributes of the resource; a number is one, and becomes text."""
    step = turn.steps[0]
    value = step.span.resource.attributes.get(key)
    if type(value) is int:
        value = str(value)
    return Sourced(step, "resource", value) if isinstance(value, str) else None


SESSION_SOURCES: FirstOf[TurnSteps] = (
    Source("the span nearest the root that names a session", partial(_nearest, "session_id")),
    Source("the resource's `session.id`", partial(_of_resource, "session.id")),
)
"""The sources of `session_id`, in their order: the first that has a value counts."""

USER_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the span nearest the root that names a user, by an attribute or a log record",
        partial(_nearest, "user_id"),
    ),
    Source("the resource's `user.id`", partial(_of_resource, "user.id")),
)
"""The sources of `user_id`, in their order: the first that has a value counts."""


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


def _counting(turn: TurnSteps) -> Sequence[Step]:
    return topmost(
        turn, lambda step: step.input_tokens is not None or step.output_tokens is not None
    )


USAGE_SOURCES: AllOf = (
    Source(
        "the model calls, each once; of those without a count, the span that sums them up",
        lambda turn: reports.counted(turn.models, turn.tree),
    ),
    Source("the outermost agents' own count", lambda turn: turn.outermost),
    Source("that of the agents inside them, without those inside one that counts", _counting),
)
"""The steps that count tokens: the counts of the first source that has any are added up, those of
the input and those of the output.
"""


def usage(turn: TurnSteps) -> Usage:
    """The sums over the steps of the first source that counts anything."""
    for source in USAGE_SOURCES:
        steps = source.find(turn)
        given = [x.input_tokens for x in steps if x.input_tokens is not None]
        produced = [x.output_tokens for x in steps if x.output_tokens is not None]
        if given or produced:
            return Usage(sum(given) if given else None, sum(produced) if produced else None)
    return Usage()


def token_counts(steps: Sequence[Step]) -> list[Sourced]:
    """The counts that `steps` record."""
    fields = ("input_tokens", "output_tokens")
    return [
        Sourced(step, field, getattr(step, field))
        for step in steps
        for field in fields
        if getattr(step, field) is not None
    ]
