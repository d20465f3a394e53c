"""Scores that an exporter could not deliver.

An operator's wish is a note in the table, which a server that runs takes up, else the next one: so
it needs no connection to the server, and no score that has arrived is sent again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Engine

from spanscore.model.score import MAX_ERROR_CHARS, Evaluation, Undelivered
from spanscore.store import connections, records
from spanscore.store.config import Config
from spanscore.store.schema import scores, undelivered
from spanscore.store.stored_rows import chunks

_PAGE = 500


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
        _forget(connection, row.exporter, [row.seq])
    if rows:
        connection.execute(insert(undelivered), [_row(x) for x in rows])


def settle(
    connection: Connection, exporter: str, seqs: Sequence[int], still: Sequence[Undelivered]
) -> None:
    """Forget these of an exporter, but for what is `still` undelivered."""
    _forget(connection, exporter, seqs)
    note(connection, still)


def counts(connection: Connection) -> dict[str, tuple[int, int]]:
    """By exporter how many there are, and how many of them are to be sent again."""
    table = undelivered.c
    query = select(table.exporter, func.count(), func.sum(table.asked)).group_by(table.exporter)
    return {name: (count, int(asked)) for name, count, asked in connection.execute(query)}


def to_resend(connection: Connection, exporter: str, limit: int) -> list[Listed]:
    """At most `limit` of an exporter's that are to be sent again, the oldest scores first."""
    return _listed(connection, exporter, after=0, limit=limit, only_to_resend=True)


def kept(config: Config, exporters: Sequence[str] = ()) -> Iterator[Listed]:
    """All that are kept, by exporter and age; only of these `exporters`, where any are named.

    Read in pages.

    Raises ConfigError where `config.url` is none or leads nowhere, RetryableError or PermanentError
    where the store cannot be read.
    """
    engine = connections.connect_reading(config)
    if engine is None:
        raise connections.no_store(config)
    try:
        for exporter in _exporters(engine):
            if not exporters or exporter in exporters:
                yield from _pages(engine, exporter)
    finally:
        engine.dispose()


def ask(config: Config, exporters: Sequence[str] = ()) -> int:
    """Have a server send again what is kept, of these `exporters` where any are named; how many
    scores that are.

    Raises as `kept`.
    """
    return _changed(config, exporters, forget=False)


def forget(config: Config, exporters: Sequence[str] = ()) -> int:
    """List these no more, and do not send them again; how many went. Raises as `kept`."""
    return _changed(config, exporters, forget=True)


def _changed(config: Config, exporters: Sequence[str], *, forget: bool) -> int:
    reader = connections.connect_reading(config)
    if reader is None:
        raise connections.no_store(config)
    reader.dispose()
    statement = delete(undelivered) if forget else update(undelivered).values(asked=1)
    if exporters:
        statement = statement.where(undelivered.c.exporter.in_(exporters))
    engine = connections.connect(config)
    try:
        with connections.transaction(engine) as connection:
            return connection.execute(statement).rowcount
    finally:
        engine.dispose()


def _exporters(engine: Engine) -> list[str]:
    with connections.snapshot(engine) as connection:
        return sorted(connection.execute(select(undelivered.c.exporter).distinct()).scalars())


def _pages(engine: Engine, exporter: str) -> Iterator[Listed]:
    after = 0
    while True:
        with connections.snapshot(engine) as connection:
            found = _listed(connection, exporter, after=after, limit=_PAGE)
        yield from found
        if not found:
            return
        after = found[-1].note.seq


def _listed(
    connection: Connection, exporter: str, *, after: int, limit: int, only_to_resend: bool = False
) -> list[Listed]:
    table = scores.c
    later = table.current == 0
    query = (
        select(undelivered, table.record, later.label("superseded"))
        .join(scores, table.number == undelivered.c.seq)
        .where(undelivered.c.exporter == exporter, undelivered.c.seq > after)
        .order_by(undelivered.c.seq)
        .limit(limit)
    )
    rows = connection.execute(query.where(undelivered.c.asked == 1) if only_to_resend else query)
    return [listed for row in rows if (listed := _one(row)) is not None]


def _one(row: Row[Any]) -> Listed | None:
    """None where the score's record is damaged."""
    evaluation = next(iter(records.undamaged(records.decode_evaluation, row.record)), None)
    if evaluation is None:
        return None
    forms = tuple(row.forms.split(","))
    note = Undelivered(
        row.exporter, row.seq, forms, row.reason, row.error, row.since_ns, bool(row.asked)
    )
    return Listed(note, evaluation, bool(row.superseded))


def _forget(connection: Connection, exporter: str, seqs: Sequence[int]) -> None:
    for some in chunks(seqs):
        is_one = (undelivered.c.exporter == exporter, undelivered.c.seq.in_(some))
        connection.execute(delete(undelivered).where(*is_one))


def _row(note: Undelivered) -> dict[str, object]:
    return {
        "exporter": note.exporter,
        "seq": note.seq,
        "forms": ",".join(note.forms),
        "reason": note.reason,
        "error": note.error[:MAX_ERROR_CHARS].replace("\0", "").encode(errors="replace").decode(),
        "since_ns": note.since_ns,
        "asked": int(note.to_resend),
    }
