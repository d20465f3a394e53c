"""The scores that one monitor has read, by session, until each session is counted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.store import records
from spanscore.store.runs import is_of_run
from spanscore.store.schema import evaluations, monitor_scores
from spanscore.store.tenants import is_of
from spanscore.store.writing import key, subject_of

_READ_AT_ONCE = 500
_MAX_PAGES = 40  # of one look, so that a backlog holds up no other writer for long
_KEPT_NS = 7 * 86400 * 10**9
_OPEN_NS = 86400 * 10**9


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which scores a monitor reads, and what it takes from each: a value on 0..1; None where it
    leaves one out.

    `run`: those of an evaluation run; "": those that are made as the traces come.
    """

    metric: str
    scope: str
    value_of: Callable[[Evaluation], float | None]
    run: str = ""


@dataclass(frozen=True, slots=True)
class SettledSession:
    """The scores of one session, or of a trace without one, which has had no new one for a
    while.
    """

    values: tuple[float, ...]
    chances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """How far the scores were read: after `seq`; whether these were all; and how many were taken
    in.
    """

    seq: int
    is_all: bool
    scores: int


class MonitorScores:
    """Those of one monitor, in a transaction."""

    def __init__(self, connection: Connection, tenant: str, monitor: str) -> None:
        self._connection = connection
        self._tenant = tenant
        self._key = {"tenant": tenant, "monitor": monitor}
        self._own = and_(monitor_scores.c.tenant == tenant, monitor_scores.c.monitor == monitor)

    def read(self, wanted: Wanted, seq: int) -> Read:
        """Take in the scores after `seq`, at most some thousands."""
        last, count = last_seq(self._connection), 0
        of_metric = (evaluations.c.metric == wanted.metric, evaluations.c.scope == wanted.scope)
        query = (
            select(evaluations.c.seq, evaluations.c.record)
            .where(*of_metric, *is_of_run(wanted.run), *is_of(evaluations, self._tenant))
            .order_by(evaluations.c.seq)
            .limit(_READ_AT_ONCE)
        )
        for _ in range(_MAX_PAGES):
            rows = self._connection.execute(
                query.where(evaluations.c.seq > seq, evaluations.c.seq <= last)
            ).all()
            for evaluation in records.decode_evaluations(row.record for row in rows):
                count += self._take(evaluation, wanted.value_of(evaluation))
            if len(rows) < _READ_AT_ONCE:
                return Read(last, is_all=True, scores=count)
            seq = rows[-1].seq
        return Read(seq, is_all=False, scores=count)

    def settled(self, until_ns: int, now_ns: int) -> list[SettledSession]:
        """The sessions that have settled, in the order of their last scores; they are counted now.

        These are those without a score since `until_ns`, and those that began a day ago.
        """
        last_ns = func.max(monitor_scores.c.seen_ns)
        open_ones = and_(self._own, monitor_scores.c.counted == 0)
        query = select(monitor_scores.c.unit).where(open_ones).group_by(monitor_scores.c.unit)
        is_settled = or_(
            last_ns <= until_ns, func.min(monitor_scores.c.seen_ns) <= now_ns - _OPEN_NS
        )
        units = self._connection.execute(
            query.having(is_settled).order_by(last_ns, monitor_scores.c.unit)
        ).scalars()
        return [self._counted(and_(open_ones, monitor_scores.c.unit == x)) for x in list(units)]

    def forget(self, now_ns: int) -> None:
        """Forget the sessions that were counted and have had no score for a week."""
        old = and_(monitor_scores.c.counted == 1, monitor_scores.c.seen_ns < now_ns - _KEPT_NS)
        self._connection.execute(delete(monitor_scores).where(self._own, old))

    def clear(self) -> None:
        """Forget all of them."""
        self._connection.execute(delete(monitor_scores).where(self._own))

    def _take(self, evaluation: Evaluation, value: float | None) -> int:
        """Keep the value of a score, in place of that of an earlier revision."""
        subject, session = subject_of(evaluation), evaluation.session_key
        unit = key(f"trace {subject}" if session is None else f"session {session}")
        of_unit = and_(self._own, monitor_scores.c.unit == unit)
        this = and_(of_unit, monitor_scores.c.subject == subject)
        counted = (
            self._connection.execute(
                select(func.max(monitor_scores.c.counted)).where(of_unit)
            ).scalar()
            or 0
        )
        self._connection.execute(delete(monitor_scores).where(this, monitor_scores.c.counted == 0))
        seen_ns = evaluation.evaluated_at_ns
        if counted:  # it is remembered as long as it goes on, or runs come back to it
            is_earlier = and_(of_unit, monitor_scores.c.seen_ns < seen_ns)
            self._connection.execute(
                update(monitor_scores).where(is_earlier).values(seen_ns=seen_ns)
            )
        if value is None or counted:
            return 0
        row = {**self._key, "unit": unit, "subject": subject, "value": value}
        seen = {"chance": evaluation.sampling, "seen_ns": seen_ns, "counted": 0}
        self._connection.execute(insert(monitor_scores).values(**row, **seen))
        return 1

    def _counted(self, this: Any) -> SettledSession:
        query = (
            select(monitor_scores.c.value, monitor_scores.c.chance)
            .where(this)
            .order_by(monitor_scores.c.subject)
        )
        rows = self._connection.execute(query).all()
        self._connection.execute(update(monitor_scores).where(this).values(counted=1))
        return SettledSession(tuple(x.value for x in rows), tuple(x.chance for x in rows))


def last_seq(connection: Connection) -> int:
    """The number of the score that was stored last; 0 where there is none."""
    last: int = connection.execute(
        select(func.coalesce(func.max(evaluations.c.seq), 0))
    ).scalar_one()
    return last
