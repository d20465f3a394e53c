"""The worst sessions, and a subject's score history."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Double, case, cast, func, literal_column, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import lookup, placement, records, stored_rows
from spanscore.store.schema import agent_traces, scores
from spanscore.store.stored_rows import chunks, key
from spanscore.store.sums import Scores, looked_up

MAX_HISTORY = 1000
"""Scores of one history at most, those that were stored last."""

_TABLE = scores.c


class Ranked(NamedTuple):
    """A session, or a trace that belongs to none; `example` is one of its scores, None where that
    is damaged.

    `judged` scores are known to pass or fail, of which `failing` fail. `fail_rate` and `mean`
    weight each by the inverse of its chance of being drawn; the mean is that of the values on the
    scale 0..1, where one is recorded. `first` is the first of its `traces` stored ones.
    """

    example: Evaluation | None
    scores: int
    judged: int
    failing: int
    fail_rate: float | None
    mean: float | None
    first: AgentTrace | None = None
    traces: int = 0


class Worst(NamedTuple):
    """Some of the ranked, and how many there are in all."""

    ranked: list[Ranked]
    total: int


def worst(
    connection: Connection,
    tenant: str,
    scores: Scores,
    scales: Mapping[int, tuple[float, float]],
    limit: int,
    offset: int,
) -> Worst:
    """The sessions with the greatest share of failing scores first; of equal ones those with the
    lowest mean.

    `scores` are of this tenant. `scales` has the scale of the values of each procedure that has
    one.
    """
    if not scores.procedures:
        return Worst([], 0)
    weight = looked_up(_TABLE.procedure, scores.procedures)
    judged = _TABLE.passing.is_not(None)
    of_judged = func.sum(case((judged, weight)))
    fail_rate = func.sum(case((_TABLE.passing == 0, weight), else_=0.0)) / of_judged
    mean = _mean(scores, scales, weight)
    query = (
        select(
            func.max(_TABLE.number).label("number"),
            func.count().label("scores"),
            func.count(_TABLE.passing).label("judged"),
            func.sum(case((_TABLE.passing == 0, 1), else_=0)).label("failing"),
            fail_rate.label("fail_rate"),
            mean.label("mean"),
            func.count().over().label("total"),
        )
        .where(*scores.conditions())
        .group_by(_TABLE.cluster)
        .order_by(func.coalesce(fail_rate, -1.0).desc(), func.coalesce(mean, 2.0), _TABLE.cluster)
        .limit(limit)
        .offset(offset)
    )
    rows = connection.execute(query).all()
    found = examples(connection, tenant, [x.number for x in rows])
    first = _first_turns(connection, list(found.values()), tenant)
    ranked = []
    for x in rows:
        example = found.get(x.number)
        turn, count = (None, 0) if example is None else first.get(_subject(example), (None, 0))
        figures = (x.scores, x.judged, x.failing, x.fail_rate, x.mean)
        ranked.append(Ranked(example, *figures, turn, count))
    return Worst(ranked, rows[0].total if rows else 0)


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


def _mean(scores: Scores, scales: Mapping[int, tuple[float, float]], weight: Any) -> Any:
    known = {id_: scales[id_] for id_ in scores.procedures if id_ in scales}
    if not known:
        return cast(literal_column("NULL"), Double)
    value: Any = _TABLE.value
    if len(known) < len(scores.procedures) or set(known.values()) != {(0.0, 1.0)}:
        everything = {id_: known.get(id_, (0.0, 0.0)) for id_ in scores.procedures}
        low = looked_up(_TABLE.procedure, {id_: x[0] for id_, x in everything.items()})
        width = looked_up(_TABLE.procedure, {id_: x[1] - x[0] for id_, x in everything.items()})
        value = (_TABLE.value - low) / func.nullif(width, 0.0)
    return func.sum(value * weight) / func.sum(case((value.is_not(None), weight)))


def examples(connection: Connection, tenant: str, numbers: Sequence[int]) -> dict[int, Evaluation]:
    """The scores with these numbers, those that others gave with the turns that they are of as
    their subjects.

    Those whose records are damaged are left out.
    """
    found: dict[int, Evaluation] = {}
    for some in chunks(numbers):
        query = select(_TABLE.number, _TABLE.record).where(_TABLE.number.in_(some))
        for number, record in connection.execute(query):
            found.update((number, x) for x in records.undamaged(records.decode_evaluation, record))
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
