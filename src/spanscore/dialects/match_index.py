"""Find the dialect that claims a span by its `matches`, and call only those of these functions that
may be true of the span.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from spanscore.dialects.dialect import Dialect
from spanscore.model.span import LogRecord, Span


@dataclass(frozen=True, slots=True)
class MatchIndex:
    """The dialects that have a `matches`, in their order.

    Most spans have no scope and no attribute that any dialect names in `matching_scopes` or
    `matching_keys`, so that one look at each leaves few dialects.
    """

    scopes: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()
    candidates: Mapping[tuple[bool, bool], Sequence[Dialect]] = field(default_factory=dict)
    """The dialects whose `matches` is called, by whether a span has a scope, and an attribute, that
    any dialect names.
    """

    @classmethod
    def of(cls, dialects: Iterable[Dialect]) -> Self:
        """Arrange the dialects that have a `matches`."""
        matching = [x for x in dialects if x.matches is not None]
        return cls(
            scopes=tuple(scope for x in matching for scope in x.matching_scopes),
            keys=frozenset(key for x in matching for key in x.matching_keys),
            candidates={
                (has_scope, has_key): [
                    x
                    for x in matching
                    if (has_scope or not x.matching_scopes) and (has_key or not x.matching_keys)
                ]
                for has_scope in (True, False)
                for has_key in (True, False)
            },
        )

    def find(self, span: Span, logs: Sequence[LogRecord]) -> Dialect | None:
        """The first dialect whose `matches` is true of a span and its log records."""
        if logs:
            candidates = self.candidates[True, True]
        else:
            has_scope = span.scope.name.startswith(self.scopes)
            candidates = self.candidates[has_scope, not self.keys.isdisjoint(span.attributes)]
        for dialect in candidates:
            if dialect.matches is not None and dialect.matches(span, logs):
                return dialect
        return None
