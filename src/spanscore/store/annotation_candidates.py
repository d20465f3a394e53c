"""What people should label next, before it is known who has labelled what: by doubt, by
contradiction, or at random.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import func, literal, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation, ScopeKind, Score
from spanscore.store import records
from spanscore.store.schema import (
    evaluations,
    external_scores,
    otel_traces,
    score_facts,
    score_procedures,
)
from spanscore.store.tenants import is_of
from spanscore.store.writing import chunks

Strategy: TypeAlias = Literal["random", "uncertain", "disagreeing"]
Place: TypeAlias = tuple[int, int]

MAX_RANKED = 1000
"""Candidates that are put in order of doubt or of contradiction."""

_MAX_OTHERS = 20_000
"""Verdicts of others, the newest, that are compared with the judge's."""

_CHUNK = 200
_SUBJECTS = 2**63
_PARTS = 10**9
_NEWEST = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a person is asked to label: what a judge scored by `metric`, in the order of a strategy.

    Labels are the human scores named `label`. `seed` decides the random order. `threshold` is in
    place of the judge's own. `against` are further metrics, and names of scores that others gave,
    that may contradict the judge. `labels_wanted` is how many people are to label each item.
    """

    tenant: str
    metric: str
    label: str
    author: str
    strategy: Strategy
    scope: ScopeKind | None = None
    seed: int = 0
    threshold: float | None = None
    against: tuple[str, ...] = ()
    labels_wanted: int = 1


class Candidate(NamedTuple):
    """A judge's score, by its outbox number, at its place in the order, and the `reasons` for which
    it is there.
    """

    place: Place
    number: int
    reasons: tuple[str, ...]


class _Judge(NamedTuple):
    """The procedures by which the judge's scores were made as traces passed, all of one scope."""

    scope: ScopeKind
    procedures: Mapping[int, Any]


def candidates(
    connection: Connection, queue: Queue, after: Place | None = None
) -> Iterator[Candidate]:
    """All candidates past a place, in the queue's order."""
    judge = _judge(connection, queue)
    if judge is None:
        return
    if queue.strategy == "random":
        yield from _random(connection, queue, judge, after)
        return
    ranked = _uncertain if queue.strategy == "uncertain" else _disagreeing
    for candidate in sorted(ranked(connection, queue, judge)):
        if after is None or candidate.place > after:
            yield candidate


def scope_of(connection: Connection, queue: Queue) -> ScopeKind | None:
    """Whether the judge scores traces or sessions; None where it has scored nothing."""
    judge = _judge(connection, queue)
    return None if judge is None else judge.scope


def _judge(connection: Connection, queue: Queue) -> _Judge | None:
    table = score_procedures.c
    made_as_traces_passed = (table.metric == queue.metric, table.source.is_(None), table.run == "")
    query = select(score_procedures).where(
        table.tenant == queue.tenant, *made_as_traces_passed, table.status == "scored"
    )
    found = connection.execute(query).all()
    scopes = {x.scope for x in found}
    scope = queue.scope or ("trace" if "trace" in scopes else "session")
    of_scope = {x.id: x for x in found if x.scope == scope}
    return _Judge(scope, of_scope) if of_scope else None


def _random(
    connection: Connection, queue: Queue, judge: _Judge, after: Place | None
) -> Iterator[Candidate]:
    """In the order of a hash of their subjects, from a place on that the seed decides.

    So what was labelled up to any moment is a simple random sample, and what is scored meanwhile
    has its place in it.
    """
    start = _start(queue)
    position = start - 1 if after is None else (start + after[0]) % _SUBJECTS
    is_first_lap = after is None or position >= start
    laps: list[tuple[int, int]] = [(position, _SUBJECTS)] if is_first_lap else []
    laps.append((-1 if is_first_lap else position, start))
    for begin, end in laps:
        while rows := connection.execute(_in_hash_order(judge, begin, end)).all():
            for row in rows:
                yield Candidate(
                    ((row.subject - start) % _SUBJECTS, 0), row.number, ("drawn at random",)
                )
            begin = rows[-1].subject  # noqa: PLW2901 - where this lap goes on


def _in_hash_order(judge: _Judge, after: int, end: int) -> Any:
    facts = score_facts.c
    wanted = (
        facts.procedure.in_(judge.procedures),
        facts.passing.is_not(None),
        facts.subject > after,
    )
    before = () if end == _SUBJECTS else (facts.subject < end,)
    query = select(facts.subject, func.max(facts.number).label("number")).where(*wanted, *before)
    return query.group_by(facts.subject).order_by(facts.subject).limit(_CHUNK)


def _start(queue: Queue) -> int:
    seed = f"{queue.seed}\n{queue.metric}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(seed).digest()[:8]) >> 1


def _uncertain(connection: Connection, queue: Queue, judge: _Judge) -> list[Candidate]:
    """Nearest to the threshold first; a score whose samples lie on both sides of it, or of a
    cascade, before these.
    """
    facts, made = score_facts.c, score_procedures.c
    threshold = made.threshold if queue.threshold is None else literal(queue.threshold)
    width = func.coalesce(made.high - made.low, 1.0)
    distance = (func.abs(facts.value - threshold) / width).label("distance")
    query = (
        select(facts.number, distance, threshold.label("threshold"), width.label("width"))
        .join(score_procedures, made.id == facts.procedure)
        .where(
            facts.procedure.in_(judge.procedures), facts.value.is_not(None), threshold.is_not(None)
        )
        .order_by(distance, facts.number)
        .limit(MAX_RANKED)
    )
    nearest = connection.execute(query).all()
    scores = by_number(connection, [x.number for x in nearest])
    return [_doubt(x, scores[x.number]) for x in nearest if x.number in scores]


def _doubt(row: Any, score: Evaluation) -> Candidate:
    how_far = f"{row.distance * row.width:.3g} from the threshold {row.threshold:g}"
    reasons = [f"the judge's score {score.value:g} is {how_far}"]
    metadata = score.outcome.metadata if isinstance(score.outcome, Score) else {}
    distance, samples, cascade = row.distance, metadata.get("samples"), metadata.get("cascade")
    values = samples.get("values") if isinstance(samples, Mapping) else None
    if values and len(values) > 1:
        distance = max(0.0, distance - (max(values) - min(values)) / 2 / row.width)
        reasons.append(f"its {len(values)} samples lie between {min(values):g} and {max(values):g}")
    if isinstance(cascade, Mapping) and cascade.get("escalated"):
        distance = 0.0
        reasons.append("the first model was unsure, so a better one was asked")
    return Candidate(
        (min(round(distance * _PARTS), _NEWEST), row.number), row.number, tuple(reasons)
    )


def _disagreeing(connection: Connection, queue: Queue, judge: _Judge) -> list[Candidate]:
    """Those whose verdict another one contradicts: of an evaluation run, of others, or of further
    metrics.
    """
    labels: defaultdict[int, list[str]] = defaultdict(list)
    others = _other_procedures(connection, queue, judge)
    direct = {id_: x for id_, x in others.items() if x.source is None or x.scope == "session"}
    for row in _contradicted(connection, judge, list(direct)):
        labels[row.number].append(_verdict(direct[row.procedure], row.other))
    given = {id_: x for id_, x in others.items() if id_ not in direct}
    if judge.scope == "trace" and given:
        for number, procedure, passing in _contradicted_by_given(
            connection, queue, judge, list(given)
        ):
            labels[number].append(_verdict(given[procedure], passing))
    newest = sorted(labels, reverse=True)[:MAX_RANKED]
    return [Candidate((_NEWEST - x, 0), x, tuple(dict.fromkeys(labels[x]))) for x in newest]


def _other_procedures(connection: Connection, queue: Queue, judge: _Judge) -> dict[int, Any]:
    table = score_procedures.c
    named = table.metric.in_([queue.metric, queue.label, *queue.against])
    query = select(score_procedures).where(
        table.tenant == queue.tenant, named, table.status == "scored"
    )
    found = connection.execute(query.where(table.scope == judge.scope)).all()
    return {x.id: x for x in found if x.id not in judge.procedures}


def _contradicted(connection: Connection, judge: _Judge, others: Sequence[int]) -> Sequence[Any]:
    """(number, procedure, other): the judge's scores whose subjects have another verdict by other
    procedures.
    """
    facts = score_facts.c
    newest = select(facts.subject, facts.procedure, facts.passing)
    newest = newest.where(facts.procedure.in_(others), facts.passing.is_not(None))
    other = newest.order_by(facts.evaluated_ns.desc()).limit(_MAX_OTHERS).subquery()
    query = (
        select(facts.number, other.c.procedure, other.c.passing.label("other"))
        .join(other, other.c.subject == facts.subject)
        .where(facts.procedure.in_(judge.procedures), facts.passing != other.c.passing)
        .order_by(facts.number.desc())
        .limit(MAX_RANKED)
    )
    return connection.execute(query).all() if others else []


def _contradicted_by_given(
    connection: Connection, queue: Queue, judge: _Judge, given: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(number, procedure, verdict) of what others gave to OTel traces that are one turn each."""
    facts = score_facts.c
    query = select(external_scores.c.trace_id, facts.procedure, facts.passing)
    query = query.join(external_scores, external_scores.c.row == -facts.number)
    query = query.where(facts.procedure.in_(given), facts.passing.is_not(None))
    given_labels: defaultdict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(query.order_by(facts.evaluated_ns.desc()).limit(_MAX_OTHERS)):
        given_labels[row.trace_id].append(row)
    for some in chunks([x for x in given_labels if x]):
        turns = _single_turns(connection, queue.tenant, some)
        for subject, number, passing in _verdicts_of(connection, queue, judge, list(turns)):
            for row in given_labels[turns[subject]]:
                if row.passing != passing:
                    yield number, row.procedure, row.passing


def _single_turns(connection: Connection, tenant: str, trace_ids: Sequence[str]) -> dict[str, str]:
    """By agent trace id the OTel trace, where that has no other agent trace."""
    table, of_trace = otel_traces.c, defaultdict[str, list[str]](list)
    query = select(table.trace_id, table.agent_trace_id).where(table.trace_id.in_(trace_ids))
    for row in connection.execute(query.where(*is_of(otel_traces, tenant))):
        of_trace[row.trace_id].append(row.agent_trace_id)
    return {ids[0]: trace_id for trace_id, ids in of_trace.items() if len(ids) == 1}


def _verdicts_of(
    connection: Connection, queue: Queue, judge: _Judge, subjects: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """(subject, number, verdict) of the judge's newest scores of these agent traces."""
    table, facts = evaluations.c, score_facts.c
    query = (
        select(table.subject_id, facts.number, facts.passing)
        .join(score_facts, facts.number == table.seq)
        .where(
            table.subject_id.in_(subjects), table.scope == judge.scope, table.metric == queue.metric
        )
        .where(facts.procedure.in_(judge.procedures), facts.passing.is_not(None))
    )
    for row in connection.execute(query):
        yield row.subject_id, row.number, row.passing


def _verdict(by: Any, passing: int) -> str:
    who = f"evaluation run {by.run}" if by.run else by.source or by.metric
    name = f" by {by.metric}" if by.source else ""
    return f"{who} says {'pass' if passing else 'fail'}{name}"


def by_number(connection: Connection, numbers: Sequence[int]) -> dict[int, Evaluation]:
    """The scores with these outbox numbers; those whose records are damaged are left out."""
    found: dict[int, Evaluation] = {}
    for some in chunks(numbers):
        query = select(evaluations.c.seq, evaluations.c.record).where(evaluations.c.seq.in_(some))
        for row in connection.execute(query):
            found.update(
                (row.seq, x) for x in records.undamaged(records.decode_evaluation, row.record)
            )
    return found
