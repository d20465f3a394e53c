"""The registry of dialects and quirks: found by scanning and in installed distributions, arranged
for fast look-up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TypeAlias

from spanscore import discovery
from spanscore.dialects.content_switch import ContentSwitch, switch_for
from spanscore.dialects.dialect import Dialect
from spanscore.dialects.entry_points import installed
from spanscore.dialects.forms.values import Facts
from spanscore.dialects.ignored_spans import IgnoredIndex
from spanscore.dialects.log_turns import LogTurns
from spanscore.dialects.match_index import MatchIndex
from spanscore.dialects.order import in_order
from spanscore.dialects.quirk import NO_QUIRK, Quirk, Quirks
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Step
from spanscore.otlp.prefilter import Prefilter

FOLDERS = ("frameworks", "platforms", "coding_agents", "conventions")
"""Where dialects and quirks are looked for: each module, or folder, brings a `DIALECT`, `QUIRKS`,
or both.
"""

RefineTrace: TypeAlias = Callable[[Sequence[Step]], Sequence[Step]]


@dataclass(frozen=True, slots=True)
class Registry:
    """Dialects in the order in which they claim spans, and indexes by which the dialect and the
    quirk of a span are found.
    """

    dialects: tuple[Dialect, ...]
    quirks: tuple[Quirk, ...]
    by_scope: Mapping[str, int]
    by_key: Mapping[str, int]
    keys: frozenset[str]
    matching: MatchIndex
    quirks_by_dialect: Mapping[str, Quirks]
    refining: Mapping[str, tuple[RefineTrace, ...]]
    ignored: IgnoredIndex
    naming: tuple[Callable[[Span], Facts], ...]
    switches: Mapping[str, tuple[ContentSwitch, ...]]
    prefilter: Prefilter
    log_turns: tuple[LogTurns, ...]
    log_scopes: tuple[str, ...]

    @classmethod
    def of(cls, dialects: Sequence[Dialect], quirks: Sequence[Quirk]) -> "Registry":
        """Arrange dialects, in this order, and quirks; of two that name the same scope or key, the
        first one counts.
        """
        by_key: dict[str, int] = {}
        for rank, dialect in enumerate(dialects):
            for key in dialect.keys:
                by_key.setdefault(key, rank)
        log_turns = tuple(_log_turns(dialects, quirks))
        return cls(
            dialects=tuple(dialects),
            quirks=tuple(quirks),
            by_scope=_by_scope(dialects, quirks),
            by_key=by_key,
            keys=frozenset(by_key),
            matching=MatchIndex.of(dialects),
            quirks_by_dialect={
                x.name: under for x in dialects if (under := _under(x, quirks)) is not None
            },
            refining={x.name: refining for x in dialects if (refining := _refining(x, quirks))},
            ignored=IgnoredIndex.of(x.ignored for x in dialects),
            naming=tuple(x.name_session for x in dialects if x.name_session is not None),
            switches={x.name: (*x.content, *_switches(x, quirks)) for x in dialects},
            prefilter=Prefilter(_most_common_first(_prefilters(dialects, quirks))),
            log_turns=log_turns,
            log_scopes=tuple(x.scope for x in log_turns),
        )

    def dialect_of(self, span: Span, logs: Sequence[LogRecord]) -> Dialect | None:
        """The first dialect that claims a span."""
        found, keys = self.by_scope.get(span.scope.name), self.keys
        if not keys.isdisjoint(span.attributes):
            ranks = [self.by_key[key] for key in keys.intersection(span.attributes)]
            found = min(ranks if found is None else (found, *ranks))
        if found is not None:
            return self.dialects[found]
        return self.matching.find(span, logs)

    def quirk_of(self, dialect: Dialect, span: Span) -> Quirk:
        """How a span differs from what its dialect reads in general."""
        found = self.quirks_by_dialect.get(dialect.name)
        return NO_QUIRK if found is None else found.find(span)


def _prefilters(dialects: Iterable[Dialect], quirks: Iterable[Quirk]) -> Iterator[bytes]:
    """The byte strings of which each request that a dialect reads contains at least one."""
    for dialect in dialects:
        yield from dialect.prefilters
    for quirk in quirks:
        if quirk.claims_scopes:
            yield from (scope.encode() for scope in quirk.scopes)
        yield from (x.scope.encode() for x in quirk.log_turns)


def _log_turns(dialects: Iterable[Dialect], quirks: Iterable[Quirk]) -> Iterator[LogTurns]:
    for dialect in dialects:
        yield from dialect.log_turns
    for quirk in quirks:
        yield from quirk.log_turns


def _by_scope(dialects: Sequence[Dialect], quirks: Iterable[Quirk]) -> dict[str, int]:
    """The place of the dialect that claims the spans of a scope."""
    found: dict[str, int] = {}
    for rank, dialect in enumerate(dialects):
        claimed = [
            scope
            for x in quirks
            if x.claims_scopes and x.under == dialect.name
            for scope in x.scopes
        ]
        for scope in (*dialect.scopes, *claimed):
            found.setdefault(scope, rank)
    return found


def _under(dialect: Dialect, quirks: Iterable[Quirk]) -> Quirks | None:
    own = [x for x in quirks if x.under == dialect.name and (x.scopes or x.matches is not None)]
    return Quirks.of(own) if own else None


def _refining(dialect: Dialect, quirks: Iterable[Quirk]) -> tuple[RefineTrace, ...]:
    """The functions that refine all steps of a dialect in a trace: those of its quirks, then its
    own.
    """
    of_quirks = [x.refine_trace for x in quirks if x.under == dialect.name]
    return tuple(x for x in (*of_quirks, dialect.refine_trace) if x is not None)


def _switches(dialect: Dialect, quirks: Iterable[Quirk]) -> Iterator[ContentSwitch]:
    """The content switches of the quirks of a dialect."""
    for quirk in quirks:
        if quirk.under == dialect.name:
            yield from quirk.content


def _most_common_first(prefilters: Iterable[bytes]) -> list[bytes]:
    """Each string once, the most common first: it is likely to be found, and then the others need
    no search.
    """
    return [found for found, _ in Counter(prefilters).most_common()]


_tried: list[Registry] = []
"""Arrangements that tests put in the place of what is installed; the last one counts."""


def registry() -> Registry:
    """The registry in effect: what is installed, or what a test put in its place.

    Raises ConfigError where an installed distribution brings something that cannot be used.
    """
    return _tried[-1] if _tried else _found()


# on first use: a distribution's module may import this package before it has defined its dialect
@cache
def _found() -> Registry:
    dialects, quirks = own_dialects(), own_quirks()
    more_dialects, more_quirks = installed(dialects)
    return Registry.of((*more_dialects, *dialects), (*more_quirks, *quirks))


def own_dialects() -> tuple[Dialect, ...]:
    """The project's own dialects, in their order."""
    return in_order(x.DIALECT for x in _modules() if hasattr(x, "DIALECT"))


def own_quirks() -> tuple[Quirk, ...]:
    """The project's own quirks, by name and by the dialect in whose spans they are."""
    found = (quirk for x in _modules() for quirk in getattr(x, "QUIRKS", ()))
    return tuple(sorted(found, key=lambda x: (x.name, x.under)))


def _modules() -> Iterator[ModuleType]:
    for folder in FOLDERS:
        yield from discovery.modules(f"spanscore.dialects.{folder}")


@contextmanager
def tried(item: Dialect | Quirk) -> Iterator[None]:
    """Within the block `item` counts before all others, as if its distribution were installed; for
    tests.

    It replaces a dialect of the same name, or a quirk of the same name under the same dialect. It
    is in effect in the whole process, threads included.
    """
    before = registry()
    dialects, quirks = before.dialects, before.quirks
    if isinstance(item, Dialect):
        dialects = (item, *(x for x in dialects if x.name != item.name))
    else:
        quirks = (item, *(x for x in quirks if (x.name, x.under) != (item.name, item.under)))
    _tried.append(Registry.of(dialects, quirks))
    try:
        yield
    finally:
        _tried.pop()


def all_dialects() -> tuple[Dialect, ...]:
    """All dialects, in the order in which they claim spans: those of other distributions, which may
    know better, first.

    Raises ConfigError where an installed distribution brings something that cannot be used.
    """
    return registry().dialects


def recording_switch(dialect: str, scope: str) -> str | None:
    """What turns on the recording of content in spans of this dialect and scope, as an instruction;
    None: not known.
    """
    return switch_for(registry().switches.get(dialect, ()), scope)


def shows_genai(body: bytes) -> bool:
    """Whether a raw OTLP request may contain a span or log record that a dialect reads.

    True may be wrong, False never.

    >>> shows_genai(b"...http.method..."), shows_genai(b"...gen_ai.request.model...")
    (False, True)
    """
    return registry().prefilter.passes(body)
