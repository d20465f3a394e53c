"""Facts that many scores share, as rows.

Their ids are hashes of what they contain, so none is looked up before it is written. A hash has 63
bits: among a million of them two are equal with a chance of one in twenty million.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Column, FromClause, delete, exists, func, not_, select
from sqlalchemy.engine import Connection

from spanscore.model import json
from spanscore.model.score import Evaluation, Evaluator, Failure, Skip
from spanscore.model.trace import MAX_TAGS, AgentTrace, tags_of
from spanscore.store.schema import (
    score_contexts,
    score_procedures,
    score_tags,
    scores,
)
from spanscore.store.stored_rows import NO_TEXT, among, key, put_rows, subject_of

MAX_TOOLS = 32
"""Tools of a trace that are kept, the first ones by name."""

_ENVIRONMENTS: tuple[str, ...] = ("deployment.environment.name", "deployment.environment")
_MAX_TEXT_CHARS = 256
_MAX_LEFT = 1000
_MAX_AT_ONCE = 10_000  # they stand in one statement

_Row: TypeAlias = tuple[Any, ...]


class OfTrace(NamedTuple):
    """What is known of an agent trace beside its scores: the first model that it called, its tools,
    its tags, and how it ended.
    """

    model: str | None = None
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    outcome: str | None = None

    @classmethod
    def of(cls, trace: AgentTrace) -> "OfTrace":
        """Those of a trace."""
        model = next((x.model for x in trace.model_calls if x.model), None)
        tools = sorted({_short(x.name) for x in trace.tool_calls or ()} - {""})
        return cls(text(model), tuple(tools[:MAX_TOOLS]), _tags(trace), trace.outcome)


class Scored(NamedTuple):
    """What was scored, as far as scores have it in common: the arguments of a context."""

    tenant: str
    service: str | None
    agent: str | None
    environment: str | None
    version: str | None
    about: OfTrace

    @classmethod
    def by(cls, score: Evaluation, about: OfTrace) -> "Scored":
        """What a score is of."""
        return cls(
            score.tenant,
            score.service_name,
            score.agent_name,
            *_release(score.target.resource),
            about,
        )

    @classmethod
    def of(cls, trace: AgentTrace) -> "Scored":
        """A trace."""
        release = _release(trace.target.resource)
        return cls(trace.tenant, trace.service_name, trace.agent_name, *release, OfTrace.of(trace))


class Dimensions:
    """The procedures and contexts of the scores of one commit, to be written with them."""

    def __init__(self) -> None:
        self._procedures: dict[int, _Row] = {}
        self._by_facts: dict[_Row, tuple[int, Evaluator]] = {}
        self._contexts: dict[int, _Row] = {}
        self._tags: set[tuple[str, int, str]] = set()

    def procedure(self, score: Evaluation, tenant: str, run: str) -> int:
        """The id of a score's procedure; without a tenant or run these are ""."""
        by = score.evaluator
        # by identity: to hash an evaluator takes as long as all else here
        facts = (
            id(by),
            tenant,
            score.scope,
            score.metric,
            run,
            score.threshold,
            score.rule,
            score.scale,
            score.sampling,
            score.status,
            _cause(score),
        )
        known = self._by_facts.get(facts)
        if known is None:
            row = _procedure(by, *facts[1:])
            self._procedures[row[0]] = row
            # kept with its id, which no other object has meanwhile
            known = self._by_facts[facts] = int(row[0]), by
        return known[0]

    def context(self, scored: Scored) -> int:
        """The id of the context of what was scored."""
        row = _context(*scored)
        self._contexts[row[0]] = row
        return int(row[0])

    def tags(self, scored: Scored) -> int | None:
        """The id of the tags of what was scored; None where it has none."""
        tags = scored.about.tags
        if not tags:
            return None
        found = hashed(scored.tenant, tags)
        self._tags.update((scored.tenant, found, tag) for tag in tags)
        return found

    def write(self, connection: Connection) -> None:
        """Write those that are not there yet."""
        put_rows(connection, score_procedures, list(self._procedures.values()), unless_there=True)
        put_rows(connection, score_contexts, list(self._contexts.values()), unless_there=True)
        put_rows(connection, score_tags, sorted(self._tags), unless_there=True)


def cluster(score: Evaluation) -> int:
    """What is independent of other scores: the session, or a trace that belongs to none."""
    session = score.session_key or score.session_id
    return subject(score) if session is None else cluster_of(score.tenant, "session", key(session))


def subject(score: Evaluation) -> int:
    """What was scored."""
    return cluster_of(score.tenant, score.scope, subject_of(score))


class Unused(NamedTuple):
    """The ids of contexts, and of tags, that no score has."""

    contexts: Sequence[int] = ()
    tags: Sequence[int] = ()


def unused(connection: Connection) -> Unused:
    """Some of those that no score has any more; none while there are a thousand or fewer, since to
    find them takes reading all scores.
    """
    return Unused(
        _unused(connection, score_contexts.c.id, scores.c.context),
        _unused(connection, score_tags.c.tags, scores.c.tags),
    )


def tidy(connection: Connection, found: Unused) -> None:
    """Delete the procedures that no score has any more, and what was `found` that none has got
    since.
    """
    has_scores = exists().where(scores.c.procedure == score_procedures.c.id)
    connection.execute(delete(score_procedures).where(not_(has_scores)))
    tags = _still_unused(connection, found.tags, scores.c.tags)
    if tags:
        connection.execute(delete(score_tags).where(among(score_tags.c.tags, tags)))
    contexts = _still_unused(connection, found.contexts, scores.c.context)
    if contexts:
        connection.execute(delete(score_contexts).where(among(score_contexts.c.id, contexts)))


def _unused(connection: Connection, id_: Column[int], used: Column[int]) -> Sequence[int]:
    if _count(connection, id_.table) <= _MAX_LEFT:
        return ()
    having = select(used).where(used.is_not(None))
    wanted = select(id_).where(id_.not_in(having)).distinct().limit(_MAX_AT_ONCE)
    return connection.execute(wanted).scalars().all()


def _still_unused(connection: Connection, ids: Sequence[int], used: Column[int]) -> list[int]:
    if not ids:
        return []
    having = connection.execute(select(used).where(among(used, ids)).distinct()).scalars()
    return sorted(set(ids).difference(having))


def _count(connection: Connection, table: FromClause) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _tags(trace: AgentTrace) -> tuple[str, ...]:
    return tuple(sorted({_short(x) for x in tags_of(trace)} - {""})[:MAX_TAGS])


def text(value: str | None) -> str | None:
    """`value` as every database takes it, at most 256 characters."""
    return None if value is None else _short(value)


def _short(value: str) -> str:
    if len(value) <= _MAX_TEXT_CHARS and value.isascii() and "\0" not in value:
        return value
    return NO_TEXT.sub("", value)[:_MAX_TEXT_CHARS]


def _cause(score: Evaluation) -> str | None:
    if isinstance(score.outcome, Skip):
        return score.outcome.cause
    return score.outcome.type if isinstance(score.outcome, Failure) else None


def _release(resource: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The environment and the version."""
    environment = next(
        (str(resource[x]) for x in _ENVIRONMENTS if resource.get(x) not in (None, "")), None
    )
    version = resource.get("service.version")
    return environment, None if version in (None, "") else str(version)


def hashed(*parts: Any) -> int:
    """A number from 0 to 2**63 - 1."""
    digest = hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


@lru_cache(maxsize=4096)
def cluster_of(tenant: str, scope: str, subject: str) -> int:
    """The hash of a session, by its key, or of a trace."""
    return hashed(tenant, scope, subject)


@lru_cache(maxsize=4096)
def _procedure(
    by: Evaluator,
    tenant: str,
    scope: str,
    metric: str,
    run: str,
    threshold: float | None,
    rule: str | None,
    scale: tuple[float, float] | None,
    sampling: float,
    status: str,
    cause: str | None,
) -> _Row:
    low, high = (None, None) if scale is None else (float(scale[0]), float(scale[1]))
    named = (text(x) for x in (by.name, by.version, by.model, by.prompt_hash, by.embedding))
    limit = None if threshold is None else float(threshold)
    made = (
        text(by.source),
        run,
        by.kind,
        *named,
        limit,
        text(rule),
        low,
        high,
        float(sampling),
        status,
        text(cause),
    )
    row = (tenant, scope, text(metric), *made)
    return hashed(*row), *row


@lru_cache(maxsize=4096)
def _context(
    tenant: str,
    service: str | None,
    agent: str | None,
    environment: str | None,
    version: str | None,
    about: OfTrace,
) -> _Row:
    release = text(environment), text(version)
    known = (tenant, text(service), text(agent), *release, about.model, about.outcome)
    row = (*known, json.dumps(about.tools))
    return hashed(*row), *row
