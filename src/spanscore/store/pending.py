"""Judge answers and deliveries that are still to come.

An operator's wish to deliver again is a note in the table, which a server that runs takes up, else
the next one: so it needs no connection to the server, and no score that has arrived is sent again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection, Engine

from spanscore.model.score import MAX_ERROR_CHARS, Evaluation, ScopeKind, Undelivered
from spanscore.store import connections, records
from spanscore.store.config import Config
from spanscore.store.schema import pending, scores
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


def note_missing(
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
    forget_missing(connection, before.values())
    rows = [
        _missing_row(identity, x, before.get(identity), now_ns) for identity, x in open_.items()
    ]
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


def forget_missing(connection: Connection, rows: Iterable[Unanswered]) -> None:
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


def _missing_row(
    identity: _Identity, missing: Missing, before: Unanswered | None, now_ns: int
) -> dict[str, object]:
    tries = 0 if before is None else before.tries + 1
    wait_ns = missing.wait_ns * (2 ** min(tries, 16) if missing.doubles else 1)
    first_ns = now_ns if before is None else before.first_ns
    kept = Unanswered(*identity, missing.cause, tries, first_ns, now_ns + wait_ns)
    return {_COLUMNS[name].name: value for name, value in asdict(kept).items()}


_PAGE = 500
_ASKED, _NEVER = 0, 2**63 - 1
_ARE_UNDELIVERED = (pending.c.kind == "score", pending.c.subject == "")


class Listed(NamedTuple):
    """An undelivered score.

    `is_superseded`: a later revision in the same run, or live as it, was committed since.
    """

    note: Undelivered
    evaluation: Evaluation
    is_superseded: bool


def note_undelivered(connection: Connection, rows: Sequence[Undelivered]) -> None:
    """Keep these, each in the place of what was known of the same score and exporter."""
    for row in rows:
        settle(connection, row.exporter, [row.seq])
    if rows:
        connection.execute(insert(pending), [_undelivered_row(x) for x in rows])


def settle(
    connection: Connection, exporter: str, seqs: Sequence[int], still: Sequence[Undelivered] = ()
) -> None:
    """Forget these of an exporter, but for what is `still` undelivered."""
    for some in chunks(seqs):
        is_one = (pending.c.name == exporter, pending.c.number.in_(some))
        connection.execute(delete(pending).where(*_ARE_UNDELIVERED, *is_one))
    note_undelivered(connection, still)


def counts(connection: Connection) -> dict[str, tuple[int, int]]:
    """By exporter how many there are, and how many of them are to be sent again."""
    asked = func.sum(case((pending.c.due_ns == _ASKED, 1), else_=0))
    query = select(pending.c.name, func.count(), asked).where(*_ARE_UNDELIVERED)
    rows = connection.execute(query.group_by(pending.c.name))
    return {name: (count, int(asked)) for name, count, asked in rows}


def to_resend(connection: Connection, exporter: str, limit: int) -> list[Listed]:
    """At most `limit` of an exporter's that are to be sent again, the oldest scores first."""
    return _listed(connection, limit, pending.c.name == exporter, pending.c.due_ns == _ASKED)


def undelivered(config: Config, exporters: Sequence[str] = ()) -> Iterator[Listed]:
    """All that are kept, by exporter and age; only of these `exporters`, where any are named.

    Read in pages.

    Raises ConfigError where `config.url` is none or leads nowhere, RetryableError or PermanentError
    where the store cannot be read.
    """
    with connections.used(connections.reader(config)) as engine:
        with connections.snapshot(engine) as connection:
            found = sorted(counts(connection))
        for exporter in found:
            if not exporters or exporter in exporters:
                yield from _pages(engine, exporter)


def resend(config: Config, exporters: Sequence[str] = ()) -> int:
    """Have a server send again what is kept, of these `exporters` where any are named; how many
    scores that are.

    Raises as `undelivered`.
    """
    return _change(config, exporters, update(pending).values(due_ns=_ASKED))


def forget_undelivered(config: Config, exporters: Sequence[str] = ()) -> int:
    """List these no more, and do not send them again; how many went. Raises as `undelivered`."""
    return _change(config, exporters, delete(pending))


def _change(config: Config, exporters: Sequence[str], statement: Any) -> int:
    connections.reader(config).dispose()
    if exporters:
        statement = statement.where(pending.c.name.in_(exporters))
    with (
        connections.used(connections.connect(config)) as engine,
        connections.transaction(engine) as connection,
    ):
        changed: int = connection.execute(statement.where(*_ARE_UNDELIVERED)).rowcount
        return changed


def _pages(engine: Engine, exporter: str) -> Iterator[Listed]:
    after = 0
    while True:
        with connections.snapshot(engine) as connection:
            later = pending.c.number > after
            found = _listed(connection, _PAGE, pending.c.name == exporter, later)
        yield from found
        if not found:
            return
        after = found[-1].note.seq


def _listed(connection: Connection, limit: int, *wanted: ColumnElement[bool]) -> list[Listed]:
    query = (
        select(pending, scores.c.record.label("score"), scores.c.current)
        .join(scores, scores.c.number == pending.c.number)
        .where(*_ARE_UNDELIVERED, *wanted)
        .order_by(pending.c.number)
        .limit(limit)
    )
    return [
        Listed(note, evaluation, row.current == 0)
        for row in connection.execute(query)
        for note in records.made_of("undelivered score", partial(_note, row), row.record)
        for evaluation in records.undamaged(records.decode_evaluation, row.score)
    ]


def _note(row: Any, *, forms: Sequence[str], **found: Any) -> Undelivered:
    is_asked = row.due_ns == _ASKED
    return Undelivered(
        row.name, row.number, forms=tuple(forms), reason=row.cause, to_resend=is_asked, **found
    )


def _undelivered_row(note: Undelivered) -> dict[str, object]:
    error = note.error[:MAX_ERROR_CHARS].replace("\0", "").encode(errors="replace").decode()
    return {
        "kind": "score",
        "subject": "",
        "name": note.exporter,
        "number": note.seq,
        "cause": note.reason,
        "due_ns": _ASKED if note.to_resend else _NEVER,
        "record": {"forms": note.forms, "error": error, "since_ns": note.since_ns},
    }
