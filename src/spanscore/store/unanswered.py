"""Metrics that wait for a judge's answer."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation, ScopeKind
from spanscore.store.schema import pending
from spanscore.store.stored_rows import chunks, key

_Identity: TypeAlias = tuple[ScopeKind, str, str]

_COLUMNS = {
    "scope": pending.c.kind,
    "subject_id": pending.c.subject,
    "metric": pending.c.name,
    "cause": pending.c.cause,
    "tries": pending.c.tries,
    "first_ns": pending.c.number,
    "due_ns": pending.c.due_ns,
}
_ARE_UNANSWERED = pending.c.kind.in_(("trace", "session"))
_IS_ONE = [column == bindparam(f"of_{name}") for name, column in list(_COLUMNS.items())[:3]]


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
    if not open_ and connection.execute(_ANY).first() is None:  # as mostly
        return
    settled = open_.keys() | {_identity(x) for x in scored}
    before = {
        identity: x
        for some in chunks(sorted({subject for _, subject, _ in settled}))
        for x in _read(connection, pending.c.subject.in_(some))
        if (identity := _identity(x)) in settled
    }
    forget(connection, before.values())
    rows = [_row(identity, x, before.get(identity), now_ns) for identity, x in open_.items()]
    if rows:
        connection.execute(insert(pending), rows)


def count(connection: Connection) -> int:
    """How many are kept."""
    query = select(func.count()).select_from(pending).where(_ARE_UNANSWERED)
    return connection.execute(query).scalar_one()


def due(connection: Connection, now_ns: int, limit: int) -> list[Unanswered]:
    """At most `limit` that are due, those of the newest traces and sessions first."""
    return _read(connection, pending.c.due_ns <= now_ns, limit)


def put_off(connection: Connection, rows: Iterable[Unanswered], due_ns: int) -> None:
    """Have these be due at another time."""
    if found := _named(rows):
        connection.execute(update(pending).where(*_IS_ONE).values(due_ns=due_ns), found)


def make_due(connection: Connection, cause: str, now_ns: int) -> None:
    """Have all with this cause be due now: it is gone."""
    is_held_up = (pending.c.cause == cause, pending.c.due_ns > now_ns)
    connection.execute(update(pending).where(_ARE_UNANSWERED, *is_held_up).values(due_ns=now_ns))


def forget(connection: Connection, rows: Iterable[Unanswered]) -> None:
    """Do not ask again for these."""
    if found := _named(rows):
        connection.execute(delete(pending).where(*_IS_ONE), found)


def forget_traces(connection: Connection, ids: Sequence[str]) -> None:
    """Do not ask again for anything of these agent traces."""
    for some in chunks(ids):
        of_traces = (pending.c.kind == "trace", pending.c.subject.in_(some))
        connection.execute(delete(pending).where(*of_traces))


def give_up(connection: Connection, *, before_ns: int, max_tries: int, keep: int) -> int:
    """Forget what is missing since before `before_ns` or was tried too often, and all but the
    newest `keep`.

    Returns how many went.
    """
    first_ns = pending.c.number
    bounds: list[ColumnElement[bool]] = [first_ns < before_ns, pending.c.tries >= max_tries]
    newest = select(first_ns).where(_ARE_UNANSWERED).order_by(first_ns.desc()).offset(keep)
    if (oldest_ns := connection.execute(newest.limit(1)).scalar()) is not None:
        bounds.append(first_ns <= oldest_ns)
    return connection.execute(delete(pending).where(_ARE_UNANSWERED, or_(*bounds))).rowcount


_ANY = select(pending.c.kind).where(_ARE_UNANSWERED).limit(1)


def _read(
    connection: Connection, wanted: ColumnElement[bool], limit: int | None = None
) -> list[Unanswered]:
    newest_first = (pending.c.number.desc(), pending.c.subject, pending.c.name)
    query = select(*(column.label(name) for name, column in _COLUMNS.items()))
    query = query.where(_ARE_UNANSWERED, wanted).order_by(*newest_first).limit(limit)
    return [Unanswered(**row) for row in connection.execute(query).mappings()]


def _named(rows: Iterable[Unanswered]) -> list[dict[str, str]]:
    return [
        dict(zip(("of_scope", "of_subject_id", "of_metric"), _identity(x), strict=True))
        for x in rows
    ]


def _identity(item: Evaluation | Missing | Unanswered) -> _Identity:
    subject = key(item.subject_id) if item.scope == "session" else item.subject_id
    return item.scope, subject, item.metric


def _row(
    identity: _Identity, missing: Missing, before: Unanswered | None, now_ns: int
) -> dict[str, object]:
    tries = 0 if before is None else before.tries + 1
    wait_ns = missing.wait_ns * (2 ** min(tries, 16) if missing.doubles else 1)
    first_ns = now_ns if before is None else before.first_ns
    kept = Unanswered(*identity, missing.cause, tries, first_ns, now_ns + wait_ns)
    return {_COLUMNS[name].name: value for name, value in asdict(kept).items()}
