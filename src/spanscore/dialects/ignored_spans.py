"""Spans that are left out before dialects read a trace: those that an evaluator emitted, and those
that announce another span.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from spanscore.dialects.keys.gen_ai import GEN_AI_EVALUATION_NAME, GEN_AI_OPERATION_NAME
from spanscore.dialects.keys.openinference import OPENINFERENCE_SPAN_KIND
from spanscore.dialects.keys.openllmetry import TRACELOOP_SPAN_KIND
from spanscore.model.span import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredSpans:
    """Which spans of a platform or framework are no work of an agent.

    A span is ignored where its scope's name is among `scopes`, its own name among `names`, where it
    has one of the attributes `keys`, or an attribute with the value that `values` has for it.
    """

    scopes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()


NOTHING_IGNORED = IgnoredSpans()
_OF_NO_DIALECT = IgnoredSpans(
    scopes=("spanscore",),
    keys=("spanscore.emitted", "ai.observability.eval_root.score"),  # the latter is TruLens's
)
_SCORE = GEN_AI_EVALUATION_NAME
_EVALUATION = "evaluation"
_KINDS_OF_STEPS = frozenset({GEN_AI_OPERATION_NAME, OPENINFERENCE_SPAN_KIND, TRACELOOP_SPAN_KIND})


@dataclass(frozen=True, slots=True)
class IgnoredIndex:
    """All ignored spans, arranged so that a span is looked up by what it has."""

    scopes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    looked_at: frozenset[str] = frozenset()
    """Keys of which a span that is ignored for its attributes has one."""

    @classmethod
    def of(cls, ignored: Iterable[IgnoredSpans]) -> Self:
        """Arrange what dialects ignore, and what is ignored in general."""
        given = (_OF_NO_DIALECT, *ignored)
        keys = frozenset(key for x in given for key in x.keys)
        values: dict[str, tuple[str, ...]] = {}
        for key, value in (pair for x in given for pair in x.values):
            values[key] = (*values.get(key, ()), value)
        return cls(
            scopes=frozenset(scope for x in given for scope in x.scopes),
            names=frozenset(name for x in given for name in x.names),
            keys=keys,
            values=values,
            looked_at=keys.union(values, (_SCORE,)),
        )

    def has(self, span: Span) -> bool:
        """Whether a span is ignored."""
        attributes = span.attributes
        if span.scope.name in self.scopes or span.name in self.names:
            return True
        if attributes.get(GEN_AI_OPERATION_NAME) == _EVALUATION:
            return True
        # this way round it looks up these few keys, and not all
        if attributes.keys().isdisjoint(self.looked_at):
            return False
        # with the kind of a step it is a step that a score was attached to
        if _SCORE in attributes and attributes.keys().isdisjoint(_KINDS_OF_STEPS):
            return True
        return not self.keys.isdisjoint(attributes) or any(
            attributes.get(key) in values for key, values in self.values.items()
        )
