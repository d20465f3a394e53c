"""What is stored of the sessions that are ranked, and a subject's score history."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import lookup, placement, records, stored_rows
from spanscore.store.schema import agent_traces, scores
from spanscore.store.stored_rows import chunks, key, scores_at

MAX_HISTORY = 1000
"""Scores of one history at most, those that were stored last."""

_TABLE = scores.c


class Described(NamedTuple):
    """What is stored of the session of a score, or of its trace that belongs to none: the score,
    None where that is damaged, and the first of the `traces`.
    """

    example: Evaluation | None = None
    first: AgentTrace | None = None
    traces: int = 0


def described(connection: Connection, tenant: str, numbers: Sequence[int]) -> dict[int, Described]:
    """What is stored of the sessions of the scores with these numbers."""
    found = examples(connection, tenant, numbers)
    first = _first_turns(connection, list(found.values()), tenant)
    return {
        number: Described(example, *first.get(_subject(example), ()))
        for number, example in found.items()
    }


def _subject(example: Evaluation) -> str:
    """The key of the session of a score, else the id of its trace."""
    session = example.session_key or example.session_id
    return example.subject_id if session is None else key(session)


def _first_turns(
    connection: Connection, examples: Sequence[Evaluation], tenant: str
) -> dict[str, tuple[AgentTrace | None, int]]:
    """The first turn of the session of each of these scores, and how many it has; of a score of no
    session its turn.
    """
    table, own = agent_traces.c, stored_rows.is_of(agent_traces, tenant)
    found: dict[str, tuple[AgentTrace | None, int]] = {}
    for some in chunks(sorted(set(map(_subject, examples)))):
        for column in (table.id, table.session_id):
            first, count = func.min(table.started_ns).label("first"), func.count().label("traces")
            wanted = select(column.label("subject"), first, count).where(column.in_(some), *own)
            subjects = wanted.group_by(column).subquery().c
            query = select(subjects.subject, subjects.traces, table.record).where(
                column == subjects.subject, table.started_ns == subjects.first
            )
            for name, traces, record in connection.execute(query):
                first_turn = records.undamaged(records.decode_trace, record)
                found[name] = (first_turn[0] if first_turn else None, traces)
    return found


def examples(connection: Connection, tenant: str, numbers: Sequence[int]) -> dict[int, Evaluation]:
    """The scores with these numbers, those that others gave with the turns that they are of as
    their subjects.

    Those whose records are damaged are left out.
    """
    found = scores_at(connection, numbers)
    given = {number: x for number, x in found.items() if number < 0}
    turns = placement.turns(connection, given.values(), tenant)
    return found | {number: turns.placed(x) for number, x in given.items()}


def history(
    connection: Connection,
    metric: str,
    tenant: str,
    *,
    trace_id: str | None = None,
    session_id: str | None = None,
) -> list[Evaluation]:
    """All scores that a trace or session ever had of a metric, of every revision, run and author.

    They are in the order of time, those of one time in the order in which they were stored. A trace
    is named by its agent trace id or OTel trace id, a session by its key or id.
    """
    if trace_id is not None:
        subjects, scope = lookup.turns(connection, trace_id, tenant), "trace"
        given = _given_to_trace(connection, metric, tenant, trace_id, subjects)
    else:
        subjects, scope = lookup.session_keys(connection, key(session_id or ""), tenant), "session"
        given = _listed(connection, metric, scope, tenant, _TABLE.session_key.in_(subjects))
    measured = _listed(connection, metric, scope, tenant, _TABLE.subject_id.in_(subjects))
    found = [*measured, *given]
    return sorted(found, key=lambda x: x.evaluated_at_ns)[-MAX_HISTORY:]


def _given_to_trace(
    connection: Connection, metric: str, tenant: str, trace_id: str, subjects: Sequence[str]
) -> list[Evaluation]:
    """What others gave to agent traces, by whatever it names them; with an OTel trace's id also
    what is of no turn.
    """
    named = placement.named_by(connection, subjects)
    trace_ids = sorted({*(x for _, x in named.traces), trace_id.lower()})
    conditions = [_TABLE.trace_id.in_(some) for some in chunks(trace_ids)]
    responses = sorted({response_id for _, response_id in named.responses})
    conditions += [_TABLE.response_id.in_(some) for some in chunks(responses)]
    found: dict[str, Evaluation] = {}
    for condition in conditions:
        found.update((x.uid, x) for x in _listed(connection, metric, "trace", tenant, condition))
    turns = placement.turns(connection, found.values(), tenant)
    placed = map(turns.placed, found.values())
    return [x for x in placed if x.subject_id in {*subjects, trace_id.lower()}]


def _listed(
    connection: Connection, metric: str, scope: str, tenant: str, condition: ColumnElement[bool]
) -> list[Evaluation]:
    wanted = (_TABLE.metric == metric, _TABLE.scope == scope, *stored_rows.is_of(scores, tenant))
    query = select(_TABLE.record).where(condition, *wanted).order_by(func.abs(_TABLE.number).desc())
    rows = connection.execute(query.limit(MAX_HISTORY)).scalars().all()
    return [x for some in records.undamaged_evaluations(rows[::-1]) for x in some]
