"""The turns that scores belong to, and what scores have in common: procedures, contexts and tags.

What is needed of one is kept beside its record when the first score that may be of it is placed.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Column, FromClause, bindparam, delete, exists, func, not_, select, update
from sqlalchemy.engine import Connection

from spanscore.model import json
from spanscore.model.external import MAX_SHARED, Turn, Turns
from spanscore.model.score import Evaluation, Evaluator, Failure, Skip
from spanscore.model.trace import MAX_TAGS, AgentTrace, tags_of
from spanscore.store import records, stored_rows
from spanscore.store.schema import (
    GIVEN,
    agent_traces,
    model_responses,
    otel_traces,
    score_contexts,
    score_procedures,
    score_tags,
    scores,
)
from spanscore.store.stored_rows import NO_TEXT, among, chunks, key, matching, put_rows, subject_of

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


_KEPT_APART: Final = ((score_contexts.c.id, scores.c.context), (score_tags.c.tags, scores.c.tags))
"""The ids of what scores have in common, and the columns by which they have it."""


def unused(connection: Connection) -> list[Sequence[int]]:
    """Some of the contexts and of the tags that no score has any more; none while there are a
    thousand or fewer, since to find them takes reading all scores.
    """
    return [_unused(connection, id_, used) for id_, used in _KEPT_APART]


def tidy(connection: Connection, found: Sequence[Sequence[int]]) -> None:
    """Delete the procedures that no score has any more, and what was `found` that none has got
    since.
    """
    has_scores = exists().where(scores.c.procedure == score_procedures.c.id)
    connection.execute(delete(score_procedures).where(not_(has_scores)))
    for (id_, used), ids in zip(_KEPT_APART, found, strict=False):
        if left := _still_unused(connection, ids, used):
            connection.execute(delete(id_.table).where(among(id_, left)))


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


MAX_SCORES = 10_000
"""Scores of one trace, session or response of a tenant that are read at most, those that came
last.
"""

_OtelTrace: TypeAlias = tuple[str, str]
_Response: TypeAlias = tuple[str, str]


class Named(NamedTuple):
    """By what scores name agent traces: OTel trace ids and ids of responses, each after its tenant.

    Of responses only those that a score names.
    """

    traces: frozenset[_OtelTrace]
    responses: frozenset[_Response]

    def __or__(self, other: "Named") -> "Named":
        """All that either has."""
        return Named(self.traces | other.traces, self.responses | other.responses)


class Candidates(NamedTuple):
    """The agent traces that scores may be of, by id; `shared` names the responses that too many
    agent traces have.
    """

    ids: Sequence[str]
    shared: frozenset[_Response]


def is_needed(connection: Connection) -> bool:
    """Whether anybody has given scores."""
    return connection.execute(_LEAST).scalar() is not None


def names_of(connection: Connection, traces: Iterable[AgentTrace]) -> Named:
    """By what scores name agent traces that are being committed."""
    otel_traces: set[_OtelTrace] = set()
    answered: list[str] = []
    for trace in traces:
        otel_traces.update((trace.tenant, x) for x in trace.trace_ids)
        if any(call.response_id for call in trace.model_calls):
            answered.append(trace.id)
    return Named(frozenset(otel_traces), scored_responses(connection, answered))


def named_by(connection: Connection, ids: Sequence[str]) -> Named:
    """By what scores name the agent traces with these ids."""
    query = select(otel_traces.c.tenant, otel_traces.c.trace_id)
    traces = matching(connection, query, otel_traces.c.agent_trace_id, ids)
    return Named(frozenset(map(tuple, traces)), scored_responses(connection, ids))


def of_responses(connection: Connection, ids: Sequence[str]) -> Named:
    """By which responses scores name the agent traces with these ids."""
    return Named(frozenset(), scored_responses(connection, ids))


def naming(connection: Connection, named: Named, changed: int) -> list[tuple[Any, Evaluation]]:
    """The scores that name these, each with its row; those whose records are damaged are left out.

    A response that more agent traces have, without the `changed` ones too, named none before and
    names none now.
    """
    found: dict[int, Any] = {}
    for tenant, trace_id in _scored_traces(connection, named.traces):
        given_to = {"trace_id": trace_id, "tenant": tenant, "limit": MAX_SCORES}
        found.update((x.number, x) for x in connection.execute(_GIVEN_TO_TRACE, given_to))
    for tenant, response_id in sorted(named.responses):
        if (
            len(_sharing(connection, tenant, response_id, MAX_SHARED + changed))
            <= MAX_SHARED + changed
        ):
            given_to = {"response": response_id, "tenant": tenant, "limit": MAX_SCORES}
            found.update((x.number, x) for x in connection.execute(_GIVEN_TO_RESPONSE, given_to))
    return list(stored_rows.read_scores(found.values()))


def candidates(
    connection: Connection, scores: Collection[Evaluation], tenant: str | None
) -> Candidates:
    """The agent traces that these scores may be of."""
    shared: set[_Response] = set()
    of_tenant = select(otel_traces.c.agent_trace_id).where(*stored_rows.is_of(otel_traces, tenant))
    trace_ids = {x.target.trace_id for x in scores if x.target.trace_id}
    ids = {x for (x,) in matching(connection, of_tenant, otel_traces.c.trace_id, trace_ids)}
    for owner, response_id in sorted({(x.tenant, x.target.response_id or "") for x in scores}):
        found = _sharing(connection, owner, key(response_id), MAX_SHARED) if response_id else ()
        if len(found) > MAX_SHARED:
            shared.add((owner, response_id))
        else:
            ids.update(found)
    return Candidates(sorted(ids), frozenset(shared))


def started_ns(connection: Connection, ids: Collection[str]) -> dict[str, int]:
    """When each of these agent traces began, by id."""
    query = select(agent_traces.c.id, agent_traces.c.started_ns)
    return dict(map(tuple, matching(connection, query, agent_traces.c.id, ids)))


def turns(connection: Connection, scores: Collection[Evaluation], tenant: str | None) -> Turns:
    """The turns that these scores may be of."""
    found = candidates(connection, scores, tenant)
    return Turns((x.turn for x in read(connection, found.ids)), found.shared)


def scored_responses(connection: Connection, ids: Sequence[str]) -> frozenset[_Response]:
    """Those responses in the agent traces with these ids that a score names."""
    found: set[_Response] = set()
    for some in chunks(ids):
        rows = connection.execute(_SCORED_RESPONSES, {"agent_traces": some})
        found.update((x.tenant, x.response_id) for x in rows)
    return frozenset(found)


def _scored_traces(connection: Connection, traces: Collection[_OtelTrace]) -> list[_OtelTrace]:
    """Those of these OTel traces, each with its tenant, to which the same tenant gave scores."""
    found: set[_OtelTrace] = set()
    for some in chunks(sorted({trace_id for _, trace_id in traces})):
        found.update(
            (x.tenant, x.trace_id) for x in connection.execute(_SCORED_TRACES, {"trace_ids": some})
        )
    return sorted(found.intersection(traces))


def _sharing(connection: Connection, tenant: str, response_id: str, most: int) -> Sequence[str]:
    """The agent traces that have a response; of more than `most` one more."""
    parameters = {"tenant": tenant, "response": response_id, "limit": most + 1}
    return connection.execute(_SHARING, parameters).scalars().all()


# Built once, as in `writing`.
_LEAST = select(scores.c.number).where(GIVEN).limit(1)
_SHARING = (
    select(model_responses.c.agent_trace_id)
    .where(
        model_responses.c.response_id == bindparam("response"),
        model_responses.c.tenant == bindparam("tenant"),
    )
    .limit(bindparam("limit"))
)
_SCORED_RESPONSES = select(model_responses.c.tenant, model_responses.c.response_id).where(
    model_responses.c.agent_trace_id.in_(bindparam("agent_traces", expanding=True)),
    exists().where(scores.c.response_id == model_responses.c.response_id),
)
_SCORED_TRACES = (
    select(scores.c.tenant, scores.c.trace_id)
    .where(scores.c.trace_id.in_(bindparam("trace_ids", expanding=True)), scores.c.scope == "trace")
    .distinct()
)
_OF_TRACES = (
    select(scores)
    .where(GIVEN, scores.c.current == 1, scores.c.scope == "trace")
    .where(scores.c.tenant == bindparam("tenant"))
    .order_by(scores.c.number)
    .limit(bindparam("limit"))
)
_GIVEN_TO_TRACE = _OF_TRACES.where(scores.c.trace_id == bindparam("trace_id"))
_GIVEN_TO_RESPONSE = _OF_TRACES.where(scores.c.response_id == bindparam("response"))


class ScoredTurn(NamedTuple):
    """A turn, and what scores of it have in common."""

    turn: Turn
    scored: Scored

    @classmethod
    def of(cls, trace: AgentTrace) -> "ScoredTurn":
        """Those of an agent trace."""
        return cls(Turn.of(trace), Scored.of(trace))


def read(connection: Connection, ids: Iterable[str]) -> Iterator[ScoredTurn]:
    """Those of these agent traces that are there; those whose records are damaged are left out."""
    for id_, turn in _kept(connection, ids):
        yield from [turn] if turn else map(ScoredTurn.of, stored(connection, [id_]))


def read_and_keep(connection: Connection, ids: Iterable[str]) -> list[ScoredTurn]:
    """As `read`; those that had to be read from the traces' own records are kept for the next
    time.
    """
    found: list[ScoredTurn] = []
    new: list[ScoredTurn] = []
    for id_, turn in _kept(connection, ids):
        if turn:
            found.append(turn)
        else:
            new += map(ScoredTurn.of, stored(connection, [id_]))
    for turn in new:
        is_it = agent_traces.c.id == turn.turn.id
        connection.execute(update(agent_traces).where(is_it).values(turn=_encode(turn)))
    return found + new


def stored(connection: Connection, ids: Iterable[str]) -> Iterator[AgentTrace]:
    """Those of these agent traces that are there, each read once it is asked for: one may be of
    megabytes.

    Those whose records are damaged are left out.
    """
    for id_ in sorted(set(ids)):
        for record in connection.execute(_STORED, {"id_": key(id_)}).scalars().all():
            yield from records.undamaged(records.decode_trace, record)


def _kept(connection: Connection, ids: Iterable[str]) -> Iterator[tuple[str, ScoredTurn | None]]:
    """Each of these ids with what is kept of it, or None."""
    for chunk in chunks(sorted(set(ids))):
        rows = connection.execute(_KEPT, {"ids": chunk}).all()
        found = {x.id: turn for x in rows for turn in records.undamaged(_decode, x.turn)}
        yield from ((id_, found.get(id_)) for id_ in chunk)


def _encode(item: ScoredTurn) -> str:
    turn, (*release, about) = item
    facts = (
        turn.id,
        turn.trace_ids,
        turn.span_ids,
        turn.responses,
        turn.session_id,
        turn.session_key,
        turn.owner,
    )
    return json.dumps((facts, release, tuple(about)))


def _decode(record: str) -> ScoredTurn:
    (
        (id_, trace_ids, span_ids, responses, session_id, session_key, owner),
        release,
        (model, tools, tags, outcome),
    ) = json.loads(record)
    headers = tuple((name, value) for name, value in owner)
    turn = Turn(id_, tuple(trace_ids), span_ids, responses, session_id, session_key, headers)
    tenant, service, agent, environment, version = release
    about = OfTrace(model, tuple(tools), tuple(tags), outcome)
    return ScoredTurn(turn, Scored(tenant, service, agent, environment, version, about))


# Built once, as in `writing`.
_STORED = select(agent_traces.c.record).where(agent_traces.c.id == bindparam("id_"))
_KEPT = select(agent_traces.c.id, agent_traces.c.turn).where(
    agent_traces.c.id.in_(bindparam("ids", expanding=True)), agent_traces.c.turn.is_not(None)
)
