"""Rows of traces, sessions and evaluations.

Up to where a session was evaluated is a row of `agent_traces`, and no time: rows rise from commit
to commit, and commits come one after the other, so whatever a reading did not see has a higher row
than all that it saw.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    FromClause,
    Select,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, responses_of
from spanscore.store import records
from spanscore.store.schema import BLOCK, BLOCK_SCORES, agent_traces, marks, names, scores

_Row: TypeAlias = tuple[Any, ...]

IdT = TypeVar("IdT")

_MAX_KEY_CHARS = 256
_TRACE_SIZE = list(agent_traces.c.keys()).index("size_bytes")
NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that not every database takes in a text."""

_MAX_IDS = 400  # of which a statement names two lists: old SQLites take 999 parameters

# Built once: to build and to recognise such a statement takes SQLAlchemy longer than the database
# to answer it.
_STORED_TRACES = select(
    agent_traces.c.id, agent_traces.c.size_bytes, agent_traces.c.revision, agent_traces.c.digest
).where(agent_traces.c.id.in_(bindparam("ids", expanding=True)))

IMPORTED = 0
"""The revision of an agent trace that never came, but was read from elsewhere for an evaluation
run.
"""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredTrace:
    """An agent trace as it is kept: `revision` counts from 1, or is `IMPORTED`; by `digest` a
    change is seen.

    `record` is the trace as `records.encode` prints it, where that was done already.
    """

    trace: AgentTrace
    revision: int
    digest: str
    record: str | None = None


def key(session_id: str) -> str:
    """`session_id` as a column can hold it: one that is too long, or that no database takes as
    text, by its SHA-256.

    A key is its own key.
    """
    if len(session_id) <= _MAX_KEY_CHARS and is_text(session_id):
        return session_id
    return "sha256:" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def is_text(text: str) -> bool:
    """Whether every database takes `text` as one."""
    if text.isascii():  # as mostly: a tenth of the time that the pattern takes
        return "\0" not in text
    return NO_TEXT.search(text) is None


def chunks(ids: Sequence[IdT]) -> Iterator[Sequence[IdT]]:
    """`ids` in parts that one statement can name."""
    return (ids[start : start + _MAX_IDS] for start in range(0, len(ids), _MAX_IDS))


def matching(
    connection: Connection, query: Select[Any], column: ColumnElement[Any], ids: Iterable[Any]
) -> Iterator[Any]:
    """The rows of a query that have one of these values in a column."""
    for some in chunks(sorted(set(ids))):
        yield from connection.execute(query.where(column.in_(some))).all()


def read_scores(rows: Iterable[Any]) -> Iterator[tuple[Any, Evaluation]]:
    """Each of these rows of `scores` with its score; those whose records are damaged are left
    out.
    """
    for row in rows:
        for score in records.undamaged(records.decode_evaluation, row.record):
            yield row, score


def scores_at(connection: Connection, numbers: Iterable[int]) -> dict[int, Evaluation]:
    """The scores with these numbers; those whose records are damaged are left out."""
    rows = matching(connection, _RECORDS, scores.c.number, numbers)
    return {row.number: score for row, score in read_scores(rows)}


_RECORDS = select(scores.c.number, scores.c.record)


def put_traces(
    connection: Connection, traces: Sequence[StoredTrace], after_row: int, now_ns: int
) -> int:
    """Write traces in place of their earlier revisions; returns by how many bytes the store has
    grown.

    One that was imported takes the place of none that came.
    """
    newest = {stored.trace.id: stored for stored in traces}
    replaced: dict[str, int] = {}
    for ids in chunks(list(newest)):
        for row in connection.execute(_STORED_TRACES, {"ids": ids}):
            if _stays(row, newest[row.id]):
                del newest[row.id]
            else:
                replaced[row.id] = row.size_bytes
    for ids in chunks(list(replaced)):
        connection.execute(delete(agent_traces).where(agent_traces.c.id.in_(ids)))
        connection.execute(delete(names).where(names.c.kind == "response", names.c.id.in_(ids)))
    rows = [
        _trace_row(stored, id_, row, now_ns)
        for row, (id_, stored) in enumerate(newest.items(), after_row + 1)
    ]
    put_rows(connection, agent_traces, rows)
    named = {x for stored in newest.values() for x in _names_of(stored.trace)}
    put_rows(connection, names, sorted(named), unless_there=True)
    written: int = sum(row[_TRACE_SIZE] for row in rows)
    return written - sum(replaced.values())


def _stays(row: Any, new: StoredTrace) -> bool:
    """Whether what is stored stays as it is: it came, or is the same, and the new one is
    imported.
    """
    return new.revision == IMPORTED and (row.revision != IMPORTED or row.digest == new.digest)


def _names_of(trace: AgentTrace) -> Iterator[_Row]:
    """The rows of `names` of a trace and its session."""
    id_, tenant = trace.id, trace.tenant
    for trace_id in trace.trace_ids:
        yield "trace", trace_id, id_, tenant
    for response_id in responses_of(trace):
        yield "response", key(response_id), id_, tenant
    if trace.session_id is not None and trace.session_key not in {None, trace.session_id}:
        yield "session", key(trace.session_id), key(trace.session_key or ""), tenant


def take_out(connection: Connection, ids: Sequence[str]) -> int:
    """Delete agent traces, but for their evaluations, which may have left; returns the bytes that
    went.
    """
    freed_bytes = 0
    for some in chunks(ids):
        freed_bytes += sum(x.size_bytes for x in connection.execute(_STORED_TRACES, {"ids": some}))
        forget_names(connection, some)
        connection.execute(delete(agent_traces).where(agent_traces.c.id.in_(some)))
    return freed_bytes


def forget_names(connection: Connection, ids: Sequence[str]) -> None:
    """Delete what else these agent traces are found by."""
    of_traces = names.c.kind.in_(("trace", "response")), names.c.id.in_(ids)
    connection.execute(delete(names).where(*of_traces))


def subject_of(evaluation: Evaluation) -> str:
    """What an evaluation is of, as columns have it.

    The agent trace's id or the key of the session; of an external score the id of the trace or
    response that it names.
    """
    return key(evaluation.subject_id)


def _trace_row(stored: StoredTrace, id_: str, row: int, now_ns: int) -> _Row:
    trace = stored.trace
    record = records.seal(stored.record or records.encode(trace))
    session = None if trace.session_key is None else key(trace.session_key)
    size_bytes = records.size_bytes(record)
    facts = (
        stored.revision,
        stored.digest,
        session,
        trace.started_ns,
        now_ns,
        size_bytes,
        trace.tenant,
    )
    return (row, id_, *facts, *_measures(trace), None, record)


def put_rows(
    connection: Connection, table: Table, rows: list[_Row], *, unless_there: bool = False
) -> None:
    """Insert rows whose values are in the order of the table's columns.

    `unless_there`: those whose key the table contains are left out.

    Handed to the driver as they are: SQLAlchemy's own handling of parameters would take a fifth of
    a commit.
    """
    if not rows:
        return
    statement = _insertion(table, connection.dialect, unless_there)
    if connection.dialect.positional:
        connection.exec_driver_sql(statement, rows)
    else:
        names = table.columns.keys()
        connection.exec_driver_sql(statement, [dict(zip(names, row, strict=True)) for row in rows])


@lru_cache(maxsize=16)
def _insertion(table: Table, dialect: Dialect, unless_there: bool) -> str:
    statement = insertion_unless_there(table, dialect) if unless_there else insert(table)
    return str(statement.compile(dialect=dialect))


def insertion_unless_there(table: Table, dialect: Dialect) -> Any:
    """The statement that inserts rows but for those whose key is there, as this database has it."""
    of_dialect = import_module(f"sqlalchemy.dialects.{dialect.name}")
    return of_dialect.insert(table).on_conflict_do_nothing()


def has_uid(connection: Connection, uids: Sequence[str]) -> tuple[ColumnElement[bool], ...]:
    """The conditions that find scores by their uids."""
    ends = select(func.min(scores.c.number)), select(func.max(scores.c.number))
    numbers = connection.execute(select(*(x.scalar_subquery() for x in ends))).one()
    first, last = (int((x or 0) / BLOCK_SCORES) for x in numbers)
    return among(BLOCK, range(first, last + 1)), scores.c.uid.in_(uids)


def among(column: ColumnElement[Any], ids: Iterable[int]) -> ColumnElement[bool]:
    """That a column has one of these numbers, which may be more than a statement has parameters."""
    return column.in_(
        bindparam(None, sorted(ids), expanding=True, literal_execute=True, unique=True)
    )


_NOBODY: Final[ColumnElement[str]] = literal_column("''")


def is_of(table: FromClause, tenant: str | None) -> tuple[ColumnElement[bool], ...]:
    """The conditions that find the rows of a tenant; "" is the one of a store without tenants, None
    stands for all.

    That it is not "" is written out, since only then a database uses the index of the rows that
    have a tenant.
    """
    if tenant is None:
        return ()
    if not tenant:
        return (table.c.tenant == _NOBODY,)
    return table.c.tenant == tenant, table.c.tenant != _NOBODY


def is_parameter(column: Column[Any]) -> ColumnElement[bool]:
    """As `is_of`, for a statement that is built once, with the tenant as its parameter `tenant`."""
    tenant = bindparam("tenant", type_=String)
    return or_(tenant.is_(None), column == tenant)


_LAST: Final = 2**63 - 1
_MOST: Final = _LAST - 1
_MOST_ERRORS: Final = 2**31 - 1

ORDERS: Final[Mapping[str, Column[int]]] = {
    "latency": agent_traces.c.latency_ns,
    "tokens": agent_traces.c.tokens,
    "tool_errors": agent_traces.c.tool_errors,
}
"""What agent traces can be ordered by here, and the column that has it."""


def ordered(field: str, *, is_falling: bool) -> ColumnElement[int]:
    """What rows are ordered by for one of `ORDERS`: never null, and last where there is no
    value.
    """
    last = literal(-_LAST if is_falling else _LAST, BigInteger)
    return func.coalesce(ORDERS[field], last, type_=BigInteger)


def tokens(trace: AgentTrace) -> int | None:
    """The tokens of a turn's model calls, in and out; None where either is not recorded."""
    given, produced = trace.usage.input_tokens, trace.usage.output_tokens
    return None if given is None or produced is None else given + produced


def tool_errors(trace: AgentTrace) -> int | None:
    """How many tool calls of a turn failed; None where it does not show whether there were any."""
    calls = trace.tool_calls
    return None if calls is None else sum(x.error is not None for x in calls)


def _measures(trace: AgentTrace) -> tuple[int, int | None, int | None]:
    """What agent traces are ordered by.

    A number for which its column has no room is cut to the greatest that it has.
    """
    used, failed = tokens(trace), tool_errors(trace)
    return (
        _bounded(trace.ended_ns - trace.started_ns, _MOST),
        None if used is None else _bounded(used, _MOST),
        None if failed is None else _bounded(failed, _MOST_ERRORS),
    )


def _bounded(number: int, most: int) -> int:
    return max(-most, min(number, most))


def first_stored_at(connection: Connection, time_ns: int, table: Table = agent_traces) -> int:
    """The number of the first row of a table that was stored at that time or later, one past the
    last where there is none: by halving.
    """
    number: Column[int] = table.c.row if table is agent_traces else table.c.number
    places = select(number.label("number"), table.c.stored_ns)
    last = connection.execute(places.order_by(number.desc()).limit(1)).first()
    if last is None or last.stored_ns < time_ns:
        return 0 if last is None else int(last.number) + 1
    low, high = 0, int(last.number)
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(places.where(number >= middle).order_by(number).limit(1)).one()
        if found.stored_ns < time_ns:
            low = int(found.number) + 1
        else:
            high = middle
    return low


_LAST_ROW = select(func.coalesce(func.max(agent_traces.c.row), 0))


def last_row(connection: Connection) -> int:
    """The row up to which a session is known that is read in the same snapshot."""
    row: int = connection.execute(_LAST_ROW).scalar_one()
    return row


_IS_EVALUATED = marks.c.kind == "evaluated"


def note(connection: Connection, evaluated: Mapping[str, int]) -> None:
    """Note of sessions, by their keys, up to which row they were read for their evaluation."""
    for keys in chunks(list(evaluated)):
        connection.execute(delete(marks).where(_IS_EVALUATED, marks.c.name.in_(keys)))
        put_rows(connection, marks, [("evaluated", x, "", evaluated[x], None) for x in keys])


def still_open(
    connection: Connection, *, keys: Sequence[str] | None = None, since_ns: int | None = None
) -> list[tuple[str, int]]:
    """As `Store.open_sessions`: of these keys, or of what was stored since a time; None: of all."""
    table, last_stored = agent_traces.c, func.max(agent_traces.c.stored_ns)
    until = func.coalesce(marks.c.number, 0)
    wanted: list[ColumnElement[bool]] = [] if keys is None else [table.session_id.in_(keys)]
    if since_ns is not None:
        wanted.append(table.row >= first_stored_at(connection, since_ns))
    query = (
        select(table.session_id, last_stored)
        .join_from(
            agent_traces, marks, _IS_EVALUATED & (marks.c.name == table.session_id), isouter=True
        )
        .where(
            table.session_id.is_not(None), table.revision != IMPORTED, table.row > until, *wanted
        )
        .group_by(table.session_id)
        .order_by(last_stored)
    )
    return [(key, stored_ns) for key, stored_ns in connection.execute(query)]


def forget_deleted(connection: Connection) -> None:
    """Forget the sessions of which all that was read is deleted: the oldest rows go first."""
    oldest = connection.execute(select(func.min(agent_traces.c.row))).scalar_one()
    stale = delete(marks).where(_IS_EVALUATED)
    if oldest is not None:
        stale = stale.where(marks.c.number < oldest)
    connection.execute(stale)


_KNOWN = select(agent_traces.c.id, agent_traces.c.revision, agent_traces.c.digest).where(
    agent_traces.c.id.in_(bindparam("ids", expanding=True))
)


def known(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Agent trace id to (revision, digest) of those among `ids` that are stored."""
    rows = [row for some in chunks(ids) for row in connection.execute(_KNOWN, {"ids": some}).all()]
    return {id_: (revision, digest) for id_, revision, digest in rows}
