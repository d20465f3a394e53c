"""Scores that an exporter could not deliver.

An operator's wish is a note in the table, which a server that runs takes up, else the next one: so
it needs no connection to the server, and no score that has arrived is sent again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Engine

from spanscore.model.score import MAX_ERROR_CHARS, Evaluation, Undelivered
from spanscore.store import connections, records
from spanscore.store.config import Config
from spanscore.store.schema import pending, scores
from spanscore.store.stored_rows import chunks

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


def note(connection: Connection, rows: Sequence[Undelivered]) -> None:
    """Keep these, each in the place of what was known of the same score and exporter."""
    for row in rows:
        settle(connection, row.exporter, [row.seq])
    if rows:
        connection.execute(insert(pending), [_row(x) for x in rows])


def settle(
    connection: Connection, exporter: str, seqs: Sequence[int], still: Sequence[Undelivered] = ()
) -> None:
    """Forget these of an exporter, but for what is `still` undelivered."""
    for some in chunks(seqs):
        is_one = (pending.c.name == exporter, pending.c.number.in_(some))
        connection.execute(delete(pending).where(*_ARE_UNDELIVERED, *is_one))
    note(connection, still)


def counts(connection: Connection) -> dict[str, tuple[int, int]]:
    """By exporter how many there are, and how many of them are to be sent again."""
    asked = func.sum(case((pending.c.due_ns == _ASKED, 1), else_=0))
    query = select(pending.c.name, func.count(), asked).where(*_ARE_UNDELIVERED)
    rows = connection.execute(query.group_by(pending.c.name))
    return {name: (count, int(asked)) for name, count, asked in rows}


def to_resend(connection: Connection, exporter: str, limit: int) -> list[Listed]:
    """At most `limit` of an exporter's that are to be sent again, the oldest scores first."""
    return _listed(connection, limit, pending.c.name == exporter, pending.c.due_ns == _ASKED)


def kept(config: Config, exporters: Sequence[str] = ()) -> Iterator[Listed]:
    """All that are kept, by exporter and age; only of these `exporters`, where any are named.

    Read in pages.

    Raises ConfigError where `config.url` is none or leads nowhere, RetryableError or PermanentError
    where the store cannot be read.
    """
    engine = _reader(config)
    try:
        with connections.snapshot(engine) as connection:
            found = sorted(counts(connection))
        for exporter in found:
            if not exporters or exporter in exporters:
                yield from _pages(engine, exporter)
    finally:
        engine.dispose()


def ask(config: Config, exporters: Sequence[str] = ()) -> int:
    """Have a server send again what is kept, of these `exporters` where any are named; how many
    scores that are.

    Raises as `kept`.
    """
    return _change(config, exporters, update(pending).values(due_ns=_ASKED))


def forget(config: Config, exporters: Sequence[str] = ()) -> int:
    """List these no more, and do not send them again; how many went. Raises as `kept`."""
    return _change(config, exporters, delete(pending))


def _change(config: Config, exporters: Sequence[str], statement: Any) -> int:
    _reader(config).dispose()
    if exporters:
        statement = statement.where(pending.c.name.in_(exporters))
    engine = connections.connect(config)
    try:
        with connections.transaction(engine) as connection:
            changed: int = connection.execute(statement.where(*_ARE_UNDELIVERED)).rowcount
            return changed
    finally:
        engine.dispose()


def _reader(config: Config) -> Engine:
    engine = connections.connect_reading(config)
    if engine is None:
        raise connections.no_store(config)
    return engine


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


def _row(note: Undelivered) -> dict[str, object]:
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
