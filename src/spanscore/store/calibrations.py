"""Calibrations of judges, and their labels."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.engine import Connection

from spanscore.model.external import HUMAN
from spanscore.model.score import Evaluation
from spanscore.store import connections, placement
from spanscore.store.config import Config
from spanscore.store.database import Database
from spanscore.store.monitor_tables import last_seq
from spanscore.store.schema import (
    COUNTED,
    GIVEN,
    annotation_items,
    marks,
    score_procedures,
    scores as scores_table,
)
from spanscore.store.stored_rows import (
    is_of,
    matching,
    put_rows,
    read_scores,
    scores_at,
    subject_of,
)


class Kept(NamedTuple):
    """The record of a calibration, its key, and whose it is: "" is whoever runs the server."""

    tenant: str
    record: Any
    key: str


def keep(config: Config, records: Mapping[str, Any], now_ns: int) -> None:
    """Keep the operator's calibrations by their keys, each in the place of an earlier one of the
    same judge.

    Raises ConfigError where the store cannot be opened, RetryableError or PermanentError where it
    cannot be written.
    """
    with (
        connections.used(connections.connect(config)) as engine,
        connections.transaction(engine) as connection,
    ):
        write(connection, "", records, now_ns)


def kept(config: Config) -> list[Kept]:
    """All calibrations, the newest first; none where there is no store, which is not made.

    Raises ConfigError where `config.url` is none, RetryableError or PermanentError where the store
    cannot be read.
    """
    engine = connections.connect_reading(config)
    if engine is None:
        return []
    with connections.used(engine), connections.snapshot(engine) as connection:
        return read_all(connection)


def read_all(connection: Connection, tenants: Collection[str] = ()) -> list[Kept]:
    """All calibrations, or those of some tenants, the newest first."""
    query = select(marks).where(_IS_CALIBRATION).order_by(marks.c.number.desc())
    if tenants:
        query = query.where(marks.c.tenant.in_(tenants))
    return [Kept(x.tenant, json.loads(x.text), x.name) for x in connection.execute(query)]


def write(connection: Connection, tenant: str, records: Mapping[str, Any], now_ns: int) -> None:
    """Keep a tenant's calibrations by their keys, each in the place of an earlier one of the same
    judge.
    """
    for key, record in records.items():
        connection.execute(delete(marks).where(*_this(key, tenant)))
        put_rows(connection, marks, [("calibration", key, tenant, now_ns, _text(record))])


_IS_CALIBRATION = marks.c.kind == "calibration"


def _this(key: str, tenant: str) -> tuple[ColumnElement[bool], ...]:
    return _IS_CALIBRATION, marks.c.name == key, marks.c.tenant == tenant


def _text(record: Any) -> str:
    return json.dumps(record, separators=(",", ":"))


def read(connection: Connection, tenant: str) -> list[Any]:
    """The records that hold for a tenant, the newest first: its own, and the operator's of judges
    without its own.
    """
    found = read_all(connection, {"", tenant})
    own = {x.key for x in found if x.tenant == tenant}
    return [x.record for x in found if x.tenant == tenant or x.key not in own]


MAX_LABELS = 20_000
"""Labels of one name that are read, the newest."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What people gave under a name, each joined to its agent trace, and the judge's newest scores
    of the same.

    `at_random` are the traces and sessions, by agent trace id or session key, that the random order
    of the queue has reached.
    """

    labels: Sequence[Evaluation]
    scores: Sequence[Evaluation]
    at_random: frozenset[str]


class Labels:
    """The store's labels and calibrations. Every method may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, tenant: str, metric: str, label: str) -> Labelled:
        """The labels of a name, and the scores of a metric that spanscore made when the traces
        came.
        """
        with self._database.reading() as connection:
            labels = _labels(connection, tenant, label)
            subjects = sorted({subject_of(x) for x in labels})
            scores = _scores(connection, tenant, metric, subjects)
            return Labelled(labels, scores, _at_random(connection, tenant, label))

    def kept(self) -> list[Kept]:
        """All calibrations, the newest first."""
        with self._database.reading() as connection:
            return read_all(connection)

    def calibrations(self, tenant: str) -> list[Any]:
        """The records that hold for a tenant, as `read`."""
        with self._database.reading() as connection:
            return read(connection, tenant)

    def change(self, before: Kept, record: Any) -> None:
        """Change the record of a calibration that is as it was before, else leave it."""
        this = _this(before.key, before.tenant)
        same = update(marks).where(*this, marks.c.text == _text(before.record))
        with self._database.writing() as connection:
            connection.execute(same.values(text=_text(record)))

    def last_seq(self) -> int:
        """The number of the score that was stored last; 0 where there is none."""
        with self._database.reading() as connection:
            return last_seq(connection)

    def scored(
        self, tenant: str, metric: str, after: int, limit: int
    ) -> list[tuple[int, Evaluation]]:
        """The first scores of a metric after one of this number, each with its own, as they were
        made when traces came; "" stands for all tenants.
        """
        table = scores_table.c
        as_it_came = (table.metric == metric, table.run == "", table.revision == 1)
        of_tenant = (table.number > after, *is_of(scores_table, tenant or None))
        query = select(table.number, table.record).where(*as_it_came, *of_tenant)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.number).limit(limit)).all()
        return [(row.number, score) for row, score in read_scores(rows)]

    def keep(self, tenant: str, found: Mapping[str, Any], now_ns: int) -> None:
        """Keep a tenant's calibrations by their keys, each in the place of an earlier one of the
        same judge.
        """
        with self._database.writing() as connection:
            write(connection, tenant, found, now_ns)


def _labels(connection: Connection, tenant: str, name: str) -> list[Evaluation]:
    made, table = score_procedures.c, scores_table.c
    of_name = (made.tenant == tenant, made.metric == name, made.source == HUMAN)
    by_people = table.procedure.in_(select(made.id).where(*of_name))
    newest = select(table.number).where(by_people, COUNTED, GIVEN)
    newest = newest.order_by(table.evaluated_ns.desc()).limit(MAX_LABELS)
    found = scores_at(connection, connection.execute(newest).scalars())
    scores = [found[x] for x in sorted(found, reverse=True)]
    return placement.turns(connection, scores, tenant).join(scores).scores


def _scores(
    connection: Connection, tenant: str, metric: str, subjects: Sequence[str]
) -> list[Evaluation]:
    table = scores_table.c
    of_metric = (table.metric == metric, table.run == "", table.tenant == tenant)
    is_newest = (*of_metric, table.current == 1)
    query = select(table.number, table.record).where(*is_newest)
    rows = matching(connection, query, table.subject_id, subjects)
    return [x for _, x in read_scores(sorted(rows, key=lambda row: row.number))]


def _at_random(connection: Connection, tenant: str, label: str) -> frozenset[str]:
    table = annotation_items.c
    reached = (table.tenant == tenant, table.label == label, table.at_random == 1)
    return frozenset(connection.execute(select(table.subject_id).where(*reached)).scalars())
