"""The stored turns that others' scores belong to.

What is needed of one is kept beside its record when the first score that may be of it is placed.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import bindparam, exists, select, update
from sqlalchemy.engine import Connection

from spanscore.model import json
from spanscore.model.external import MAX_SHARED, Turn, Turns
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import records, stored_rows
from spanscore.store.dimensions import OfTrace, Scored
from spanscore.store.schema import (
    GIVEN,
    agent_traces,
    model_responses,
    otel_traces,
)
from spanscore.store.schema import scores as scores_table
from spanscore.store.stored_rows import chunks, key, matching

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


NOTHING = Named(frozenset(), frozenset())


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
    return [
        (x, score)
        for x in found.values()
        for score in records.undamaged(records.decode_evaluation, x.record)
    ]


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
_LEAST = select(scores_table.c.number).where(GIVEN).limit(1)
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
    exists().where(scores_table.c.response_id == model_responses.c.response_id),
)
_SCORED_TRACES = (
    select(scores_table.c.tenant, scores_table.c.trace_id)
    .where(
        scores_table.c.trace_id.in_(bindparam("trace_ids", expanding=True)),
        scores_table.c.scope == "trace",
    )
    .distinct()
)
_OF_TRACES = (
    select(scores_table)
    .where(GIVEN, scores_table.c.current == 1, scores_table.c.scope == "trace")
    .where(scores_table.c.tenant == bindparam("tenant"))
    .order_by(scores_table.c.number)
    .limit(bindparam("limit"))
)
_GIVEN_TO_TRACE = _OF_TRACES.where(scores_table.c.trace_id == bindparam("trace_id"))
_GIVEN_TO_RESPONSE = _OF_TRACES.where(scores_table.c.response_id == bindparam("response"))


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
