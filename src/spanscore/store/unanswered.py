"""Metrics that wait for a judge's answer."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation, ScopeKind
from spanscore.store.schema import unanswered
from spanscore.store.stored_rows import chunks, key

_Identity: TypeAlias = tuple[ScopeKind, str, str]


@dataclass(frozen=True, slots=True)
class Missing:
    """A metric of a trace or session that got no answer.

    `cause` is one of few words. It is to be asked again after `wait_ns`, doubled for each time that
    was in vain where `doubles`.
    """

    scope: ScopeKind
    subject_id: str
    metric: str
    cause: str
    wait_ns: int
    doubles: bool = True


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A `Missing` as it is kept: `tries` counts how often it was asked again in vain.

    Times are Unix ns.

    `subject_id` is the agent trace's id, or the key of the session.
    """

    scope: ScopeKind
    subject_id: str
    metric: str
    cause: str
    tries: int
    first_ns: int
    due_ns: int


def note(
    connection: Connection, scored: Iterable[Evaluation], missing: Iterable[Missing], now_ns: int
) -> None:
    """Keep what is missing; of what has come out otherwise nothing is missing any more."""
    open_ = {_identity(x): x for x in missing}
    if not open_ and _is_empty(connection):  # as mostly
        return
    settled = {_identity(x) for x in scored}.difference(open_)
    before = {
        _identity(x): x
        for x in _of_subjects(connection, {subject for _, subject, _ in settled.union(open_)})
    }
    _delete(connection, [x for x in before if x in settled or x in open_])
    rows = [_row(identity, x, before.get(identity), now_ns) for identity, x in open_.items()]
    if rows:
        connection.execute(insert(unanswered), rows)


def count(connection: Connection) -> int:
    """How many are kept."""
    return connection.execute(select(func.count()).select_from(unanswered)).scalar_one()


def due(connection: Connection, now_ns: int, limit: int) -> list[Unanswered]:
    """At most `limit` that are due, those of the newest traces and sessions first."""
    table = unanswered.c
    newest_first = (table.first_ns.desc(), table.subject_id, table.metric)
    query = select(unanswered).where(table.due_ns <= now_ns).order_by(*newest_first).limit(limit)
    return [Unanswered(**row) for row in connection.execute(query).mappings()]


def put_off(connection: Connection, rows: Iterable[Unanswered], due_ns: int) -> None:
    """Have these be due at another time."""
    found = [{**_named(_identity(x)), "then_ns": due_ns} for x in rows]
    if found:
        connection.execute(
            update(unanswered).where(*_IS_ONE).values(due_ns=bindparam("then_ns")), found
        )


def make_due(connection: Connection, cause: str, now_ns: int) -> None:
    """Have all with this cause be due now: it is gone."""
    table = unanswered.c
    connection.execute(
        update(unanswered).where(table.cause == cause, table.due_ns > now_ns).values(due_ns=now_ns)
    )


def forget(connection: Connection, rows: Iterable[Unanswered]) -> None:
    """Do not ask again for these."""
    _delete(connection, [_identity(x) for x in rows])


def forget_traces(connection: Connection, ids: Sequence[str]) -> None:
    """Do not ask again for anything of these agent traces."""
    for some in chunks(ids):
        connection.execute(
            delete(unanswered).where(
                unanswered.c.scope == "trace", unanswered.c.subject_id.in_(some)
            )
        )


def give_up(connection: Connection, *, before_ns: int, max_tries: int, keep: int) -> int:
    """Forget what is missing since before `before_ns` or was tried too often, and all but the
    newest `keep`.

    Returns how many went.
    """
    table = unanswered.c
    bounds: list[ColumnElement[bool]] = [table.first_ns < before_ns, table.tries >= max_tries]
    newest = select(table.first_ns).order_by(table.first_ns.desc()).offset(keep).limit(1)
    if (oldest_ns := connection.execute(newest).scalar()) is not None:
        bounds.append(table.first_ns <= oldest_ns)
    return connection.execute(delete(unanswered).where(or_(*bounds))).rowcount


def _is_empty(connection: Connection) -> bool:
    return connection.execute(select(unanswered.c.metric).limit(1)).first() is None


def _of_subjects(connection: Connection, subjects: Collection[str]) -> list[Unanswered]:
    return [
        Unanswered(**row)
        for some in chunks(sorted(subjects))
        for row in connection.execute(
            select(unanswered).where(unanswered.c.subject_id.in_(some))
        ).mappings()
    ]


def _delete(connection: Connection, identities: Sequence[_Identity]) -> None:
    if identities:
        connection.execute(delete(unanswered).where(*_IS_ONE), [_named(x) for x in identities])


def _identity(item: Evaluation | Missing | Unanswered) -> _Identity:
    return (
        item.scope,
        key(item.subject_id) if item.scope == "session" else item.subject_id,
        item.metric,
    )


def _named(identity: _Identity) -> dict[str, Any]:
    return dict(zip(("of_scope", "of_subject", "of_metric"), identity, strict=True))


def _row(
    identity: _Identity, missing: Missing, before: Unanswered | None, now_ns: int
) -> dict[str, Any]:
    scope, subject_id, metric = identity
    tries = 0 if before is None else before.tries + 1
    wait_ns = missing.wait_ns * (2 ** min(tries, 16) if missing.doubles else 1)
    return {
        "scope": scope,
        "subject_id": subject_id,
        "metric": metric,
        "cause": missing.cause,
        "tries": tries,
        "first_ns": now_ns if before is None else before.first_ns,
        "due_ns": now_ns + wait_ns,
    }


_IS_ONE = (
    unanswered.c.scope == bindparam("of_scope"),
    unanswered.c.subject_id == bindparam("of_subject"),
    unanswered.c.metric == bindparam("of_metric"),
)
