"""The registry of dialects and quirks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, product
from types import ModuleType
from typing import Self, TypeAlias

from spanscore import discovery
from spanscore.dialects.dialect import (
    NO_QUIRK,
    ContentSwitch,
    Dialect,
    IgnoredSpans,
    Quirk,
    switch_for,
)
from spanscore.dialects.forms.structure import Facts
from spanscore.dialects.log_turns import LogTurns, Part, unit_id
from spanscore.errors import ConfigError
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Step
from spanscore.otlp.check import Prefilter


@dataclass(frozen=True, slots=True)
class Quirks:
    """All quirks of one dialect: finds the one of a span."""

    by_scope: Mapping[str, Quirk]
    keys: frozenset[str]
    values: tuple[tuple[str, str, Quirk], ...]
    looking: tuple[tuple[Callable[[Span], bool], Quirk], ...]

    @classmethod
    def of(cls, quirks: Sequence[Quirk]) -> Self:
        """Arrange quirks; of two with the same scope the first one counts."""
        values = tuple((key, value, x) for x in quirks for key, value in x.values)
        return cls(
            by_scope={scope: x for x in reversed(quirks) for scope in x.scopes},
            keys=frozenset(key for key, _, _ in values),
            values=values,
            looking=tuple((x.matches, x) for x in quirks if x.matches is not None),
        )

    def find(self, span: Span) -> Quirk:
        """The quirk of a span, or `NO_QUIRK`."""
        found = self.by_scope.get(span.scope.name)
        if found is not None:
            return found
        if not self.keys.isdisjoint(span.attributes):
            for key, part, quirk in self.values:
                value = span.attributes.get(key)
                if part in value if isinstance(value, str) else value is not None and not part:
                    return quirk
        for matches, quirk in self.looking:
            if matches(span):
                return quirk
        return NO_QUIRK


_OF_NO_DIALECT = IgnoredSpans(
    scopes=("spanscore",),
    keys=("spanscore.emitted", "ai.observability.eval_root.score"),  # the latter is TruLens's
)
_SCORE = "gen_ai.evaluation.name"
_EVALUATION = "evaluation"
_KINDS_OF_STEPS = frozenset(
    {"gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"}
)


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
        if attributes.get("gen_ai.operation.name") == _EVALUATION:
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


@dataclass(frozen=True, slots=True)
class MatchIndex:
    """The dialects that have a `matches`, in their order.

    Most spans have nothing that any dialect names in `matching_scopes`, `matching_names` or
    `matching_keys`, so that one look at each leaves few dialects.
    """

    scopes: tuple[str, ...]
    names: tuple[str, ...]
    keys: frozenset[str]
    prefixes: tuple[str, ...]
    candidates: Mapping[tuple[bool, bool, bool], Sequence[Dialect]]
    """The dialects whose `matches` is called, by whether a span has a scope, a name, and an
    attribute, that any dialect names.
    """

    @classmethod
    def of(cls, dialects: Iterable[Dialect]) -> Self:
        """Arrange the dialects that have a `matches`."""
        matching = [x for x in dialects if x.matches is not None]
        keys = frozenset(key for x in matching for key in x.matching_keys)
        return cls(
            scopes=tuple(scope for x in matching for scope in x.matching_scopes),
            names=tuple(name for x in matching for name in x.matching_names),
            keys=keys,
            prefixes=tuple(sorted(key for key in keys if key.endswith("."))),
            candidates={
                (has_scope, has_name, has_key): [
                    x
                    for x in matching
                    if _may_match(x, has_scope=has_scope, has_name=has_name, has_key=has_key)
                ]
                for has_scope, has_name, has_key in product((True, False), repeat=3)
            },
        )

    def find(self, span: Span, logs: Sequence[LogRecord]) -> Dialect | None:
        """The first dialect whose `matches` is true of a span and its log records."""
        if logs:
            candidates = self.candidates[True, True, True]
        else:
            candidates = self.candidates[
                span.scope.name.startswith(self.scopes),
                span.name.startswith(self.names),
                self._has_key(span.attributes),
            ]
        for dialect in candidates:
            if dialect.matches is not None and dialect.matches(span, logs):
                return dialect
        return None

    def _has_key(self, attributes: Attributes) -> bool:
        """Whether a span has one of the keys, or one that begins as they do."""
        if not self.keys.isdisjoint(attributes):
            return True
        joined = "\n".join(attributes)  # quicker to search than key by key, for every span
        return any(x in joined for x in self.prefixes)


def _may_match(dialect: Dialect, *, has_scope: bool, has_name: bool, has_key: bool) -> bool:
    """Whether a span may be a dialect's that has a scope, a name or an attribute that any names."""
    scopes, names, keys = dialect.matching_scopes, dialect.matching_names, dialect.matching_keys
    if not (scopes or names or keys):
        return True
    return bool((has_scope and scopes) or (has_name and names) or (has_key and keys))


FOLDERS = ("frameworks", "platforms", "coding_agents", "conventions")
"""Where dialects and quirks are looked for: each module, or folder, brings a `DIALECT`, or several
`DIALECTS`, `QUIRKS`, or both.
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
        under: dict[str, list[Quirk]] = defaultdict(list)
        for quirk in quirks:
            under[quirk.under].append(quirk)
        quirks_by_dialect = {name: Quirks.of(own) for name, own in under.items()}
        by_key = _first_places(x.keys for x in dialects)
        log_turns = (
            *chain.from_iterable(x.log_turns for x in dialects),
            *chain.from_iterable(x.log_turns for x in quirks),
        )
        return cls(
            dialects=tuple(dialects),
            quirks=tuple(quirks),
            by_scope=_first_places(_scopes(x, under[x.name]) for x in dialects),
            by_key=by_key,
            keys=frozenset(by_key),
            matching=MatchIndex.of(dialects),
            quirks_by_dialect=quirks_by_dialect,
            refining={
                x.name: refining for x in dialects if (refining := _refining(x, under[x.name]))
            },
            ignored=IgnoredIndex.of(x.ignored for x in dialects),
            naming=tuple(x.name_session for x in dialects if x.name_session is not None),
            switches={x.name: _switches(x, under[x.name]) for x in dialects},
            prefilter=Prefilter(_prefilters(dialects, quirks)),
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


def _first_places(named: Iterable[Iterable[str]]) -> dict[str, int]:
    """The first place at which each is named."""
    found: dict[str, int] = {}
    for place, names in enumerate(named):
        for name in names:
            found.setdefault(name, place)
    return found


def _scopes(dialect: Dialect, under: Iterable[Quirk]) -> Iterator[str]:
    """The scopes whose spans are a dialect's."""
    yield from dialect.scopes
    for quirk in under:
        if quirk.claims_scopes:
            yield from quirk.scopes


def _refining(dialect: Dialect, under: Iterable[Quirk]) -> tuple[RefineTrace, ...]:
    """The functions that refine all steps of a dialect in a trace: those of its quirks, then its
    own.
    """
    found = (*(x.refine_trace for x in under), dialect.refine_trace)
    return tuple(x for x in found if x is not None)


def _switches(dialect: Dialect, under: Iterable[Quirk]) -> tuple[ContentSwitch, ...]:
    return (*dialect.content, *chain.from_iterable(x.content for x in under))


def _prefilters(dialects: Iterable[Dialect], quirks: Iterable[Quirk]) -> list[bytes]:
    """The byte strings of which each request that a dialect reads contains at least one.

    The most common come first: one is likely to be found, and then the others need no search.
    """
    found = Counter(x for dialect in dialects for x in dialect.prefilters)
    for quirk in quirks:
        found.update(x.encode() for x in quirk.scopes if quirk.claims_scopes)
        found.update(x.scope.encode() for x in quirk.log_turns)
    return [x for x, _ in found.most_common()]


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
    return in_order(
        dialect
        for x in _modules()
        for dialect in (*getattr(x, "DIALECTS", ()), getattr(x, "DIALECT", None))
        if dialect is not None
    )


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


GROUP = "spanscore.dialects"


def installed(own: Sequence[Dialect]) -> tuple[tuple[Dialect, ...], tuple[Quirk, ...]]:
    """The dialects and quirks of installed distributions, each by the names of their entry points.

    Raises ConfigError where an entry point gives neither, a dialect whose name is taken, or a quirk
    in the spans of a dialect that is not there.
    """
    dialects: list[Dialect] = []
    quirks: list[tuple[str, Quirk]] = []
    taken = {x.name for x in own}
    for name, item in discovery.registered(GROUP):
        if isinstance(item, Quirk):
            quirks.append((name, item))
        elif not isinstance(item, Dialect):
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r} is neither a Dialect nor a Quirk of "
                f"spanscore.dialects.reading: {item!r}; name one, or uninstall what brings it"
            )
        elif item.name in taken:
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r}: there is a dialect {item.name!r}"
                " already; give it another name, or uninstall what brings it"
            )
        else:
            taken.add(item.name)
            dialects.append(item)
    for name, quirk in quirks:
        if quirk.under not in taken:
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r}: there is no dialect {quirk.under!r} that"
                f" the quirk {quirk.name!r} could be under; there are {', '.join(sorted(taken))}"
            )
    return tuple(dialects), tuple(x for _, x in quirks)


ORDER = (
    "pydantic_ai",
    "vercel_ai",
    "google_adk",
    "google_genai",
    "strands",
    "bedrock",
    "livekit",
    "pipecat",
    "gemini_cli",
    "codex",
    "copilot",
    "mastra",
    "voltagent",
    "braintrust",
    "langfuse",
    "mlflow",
    "genkit",
    "llama_index",
    "agent_framework",
    "semantic_kernel",
    "autogen",
    "haystack",
    "logfire",
    "openinference",
    "langwatch",
    "laminar",
    "langsmith",
    "litellm",
    "claude_code",
    "openlit",
    "agentops",
    "openai_agents",
    "spring_ai",
    "quarkus",
    "sentry",
    "traceai",
    "netra",
    "openllmetry",
    "semconv",
)
"""The names of the dialects whose place matters: one that extends another, or borrows its
attributes, is before it.

A dialect with a scope or an attribute of its own is before those that have to look at a whole span.
"""

_PLACES = {name: place for place, name in enumerate(ORDER)}


def in_order(dialects: Iterable[Dialect]) -> tuple[Dialect, ...]:
    """Dialects in the order in which they claim spans: by name those that `ORDER` lacks, then as
    `ORDER` has them.
    """
    return tuple(sorted(dialects, key=lambda x: (_PLACES.get(x.name, -1), x.name)))


def unit_scopes() -> tuple[str, ...]:
    """The beginnings of the names of scopes whose spans or log records are not all read by their
    trace ids.
    """
    return registry().log_scopes


def unit_of(
    scope_name: str, trace_id: str, attributes: Callable[[], Attributes], *, of_log: bool
) -> str:
    """The id of the unit that a span or log record is read in, 32 hex digits; "" for a log record
    of no trace.

    Mostly it is the trace id; then `attributes` is not called.
    """
    found = registry()
    if scope_name.startswith(found.log_scopes):
        turns = next(x for x in found.log_turns if scope_name.startswith(x.scope))
        named = turns.unit(attributes(), trace_id) if of_log or turns.with_spans else None
        if named is not None:
            return unit_id(named)
    return trace_id


def split_units(spans: Iterable[Span], logs: Iterable[LogRecord]) -> list[Part]:
    """The turns in what was gathered under one id, a part for each where turns are not traces; else
    everything as one part.
    """
    parts, scopes = [(list(spans), list(logs))], unit_scopes()
    names = {x.scope.name for item in parts[0] for x in item}
    if not any(x.startswith(scopes) for x in names):
        return parts
    for turns in registry().log_turns:
        divided = list[Part]()
        for part in parts:
            unit = _unit(turns, part)
            divided += [part] if unit is None else turns.parts(unit, *part)
        parts = divided
    return parts


def merge_units(gathered: Iterable[Part]) -> list[Part]:
    """The parts of one turn that were gathered under several ids, with log records that have no
    spans added to the first spans.

    If no part has spans, all parts are left as they are.
    """
    parts = list(gathered)
    spans_at = next((at for at, (spans, _) in enumerate(parts) if spans), None)
    if spans_at is not None:
        spans, logs = parts[spans_at]
        parts[spans_at] = spans, [*logs, *(x for given, more in parts if not given for x in more)]
        parts = [x for x in parts if x[0]]
    return [x for part in parts for x in split_units(*part)]


def _unit(turns: LogTurns, part: Part) -> str | None:
    """The id under which a part was gathered, if it contains spans or log records of the emitter of
    `turns`.
    """
    spans, logs = part
    log = next((x for x in logs if x.scope.name.startswith(turns.scope)), None)
    if log is not None:
        return unit_of(log.scope.name, log.trace_id, lambda: log.attributes, of_log=True)
    span = next(
        (x for x in spans if turns.with_spans and x.scope.name.startswith(turns.scope)), None
    )
    if span is None:
        return None
    return unit_of(span.scope.name, span.trace_id, lambda: span.attributes, of_log=False)
