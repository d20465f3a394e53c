"""Sessions by how bad their scores are, and all that was ever said of one trace or session."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Double, Select, case, cast, func, literal_column, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.store import external, reading, records, tenants
from spanscore.store.schema import evaluations, external_scores, score_facts
from spanscore.store.sums import Scores, looked_up
from spanscore.store.writing import chunks, key

MAX_HISTORY = 1000
"""Scores of one history at most, those that were stored last."""

_facts = score_facts.c


class Ranked(NamedTuple):
    """A session, or a trace that belongs to none; `example` is one of its scores, None where that is damaged.

    `judged` scores are known to pass or fail, of which `failing` fail. `fail_rate` and `mean` weight each by the
    inverse of its chance of being drawn; the mean is that of the values on the scale 0..1, where one is recorded.
    """

    example: Evaluation | None
    scores: int
    judged: int
    failing: int
    fail_rate: float | None
    mean: float | None


def worst(
    connection: Connection, scores: Scores, scales: Mapping[int, tuple[float, float]], limit: int, offset: int
) -> list[Ranked]:
    """The sessions with the greatest share of failing scores first; of equal ones those with the lowest mean.

    `scales` has the scale of the values of each procedure that has one.
    """
    if not scores.procedures:
        return []
    weight = looked_up(_facts.procedure, scores.procedures)
    judged = _facts.passing.is_not(None)
    of_judged = func.sum(case((judged, weight)))
    fail_rate = func.sum(case((_facts.passing == 0, weight), else_=0.0)) / of_judged
    mean = _mean(scores, scales, weight)
    query = (
        select(
            func.max(_facts.number).label("number"),
            func.count().label("scores"),
            func.count(_facts.passing).label("judged"),
            func.sum(case((_facts.passing == 0, 1), else_=0)).label("failing"),
            fail_rate.label("fail_rate"),
            mean.label("mean"),
        )
        .where(*scores.conditions())
        .group_by(_facts.cluster)
        .order_by(func.coalesce(fail_rate, -1.0).desc(), func.coalesce(mean, 2.0), _facts.cluster)
        .limit(limit)
        .offset(offset)
    )
    rows = connection.execute(query).all()
    examples = _examples(connection, [x.number for x in rows])
    return [Ranked(examples.get(x.number), x.scores, x.judged, x.failing, x.fail_rate, x.mean) for x in rows]


def _mean(scores: Scores, scales: Mapping[int, tuple[float, float]], weight: Any) -> Any:
    known = {id_: scales[id_] for id_ in scores.procedures if id_ in scales}
    if not known:
        return cast(literal_column("NULL"), Double)
    everything = {id_: known.get(id_, (0.0, 0.0)) for id_ in scores.procedures}
    low = looked_up(_facts.procedure, {id_: x[0] for id_, x in everything.items()})
    width = looked_up(_facts.procedure, {id_: x[1] - x[0] for id_, x in everything.items()})
    value = (_facts.value - low) / func.nullif(width, 0.0)
    return func.sum(value * weight) / func.sum(case((value.is_not(None), weight)))


def _examples(connection: Connection, numbers: Sequence[int]) -> dict[int, Evaluation]:
    """The scores with these numbers; those whose records are damaged are left out."""
    found: dict[int, Evaluation] = {}
    for some in chunks(numbers):
        own = select(evaluations.c.seq, evaluations.c.record).where(evaluations.c.seq.in_(some))
        rows = [-x for x in some if x < 0]
        given = select(-external_scores.c.row, external_scores.c.record).where(external_scores.c.row.in_(rows))
        for query in (own, given):
            for number, record in connection.execute(query):
                found.update((number, x) for x in records.undamaged(records.decode_evaluation, record))
    return found


def history(
    connection: Connection, metric: str, tenant: str, *, trace_id: str | None = None, session_id: str | None = None
) -> list[Evaluation]:
    """All that was ever said of a trace or session by a metric: every revision, run and author, in the order of time.

    What is of one time is in the order in which it was stored. Of a trace by its agent trace id or OTel trace id; of a
    session by its key or id.
    """
    if trace_id is not None:
        subjects, scope = reading.turns(connection, trace_id, tenant), "trace"
        given_to = {*external.otel_ids(connection, subjects), trace_id}
        column = external_scores.c.trace_id
    else:
        subjects, scope = reading.session_keys(connection, key(session_id or ""), tenant), "session"
        given_to, column = {*subjects, key(session_id or "")}, external_scores.c.session_key
    own = evaluations.c
    of_metric = (own.metric == metric, own.scope == scope, *tenants.is_of(evaluations, tenant))
    measured = select(own.record).where(own.subject_id.in_(subjects), *of_metric).order_by(own.seq.desc())
    table = external_scores.c
    of_others = (table.metric == metric, table.scope == scope, *tenants.is_of(external_scores, tenant))
    given = select(table.record).where(column.in_(sorted(given_to)), *of_others).order_by(table.row.desc())
    found = [x for query in (measured, given) for x in _decoded(connection, query)]
    return sorted(found, key=lambda x: x.evaluated_at_ns)[-MAX_HISTORY:]


def _decoded(connection: Connection, query: Select[Any]) -> list[Evaluation]:
    rows = connection.execute(query.limit(MAX_HISTORY)).scalars().all()
    return [x for record in reversed(rows) for x in records.undamaged(records.decode_evaluation, record)]
