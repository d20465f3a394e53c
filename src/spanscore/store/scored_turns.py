"""What others' scores are joined to agent traces by: kept beside a trace, whose own record may be
of megabytes.

A row is written when the first score that may be of an agent trace is placed, and goes with the
trace or its revision: of traces to which nobody gave scores there are none.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.engine import Connection

from spanscore.model import json
from spanscore.model.external import Turn
from spanscore.model.trace import AgentTrace
from spanscore.store import records
from spanscore.store.dimensions import OfTrace, Scored
from spanscore.store.schema import agent_traces, scored_turns
from spanscore.store.writing import chunks, key, put_rows


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
    put_rows(connection, scored_turns, [(x.turn.id, _encode(x)) for x in new], unless_there=True)
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
        found = {
            x.agent_trace_id: turn for x in rows for turn in records.undamaged(_decode, x.record)
        }
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
        (model, tools, tags),
    ) = json.loads(record)
    headers = tuple((name, value) for name, value in owner)
    turn = Turn(id_, tuple(trace_ids), span_ids, responses, session_id, session_key, headers)
    tenant, service, agent, environment, version = release
    about = OfTrace(model, tuple(tools), tuple(tags))
    return ScoredTurn(turn, Scored(tenant, service, agent, environment, version, about))


# Built once, as in `writing`.
_STORED = select(agent_traces.c.record).where(agent_traces.c.id == bindparam("id_"))
_KEPT = select(scored_turns).where(
    scored_turns.c.agent_trace_id.in_(bindparam("ids", expanding=True))
)
