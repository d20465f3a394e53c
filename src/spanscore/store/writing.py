"""What one commit writes: rows of traces and of evaluations, by as few statements as there are
tables.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Delete, Dialect, Table, bindparam, delete, insert, select
from sqlalchemy.engine import Connection

from spanscore.model.external import responses_of
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import records, trace_measures
from spanscore.store.schema import (
    agent_traces,
    evaluations,
    model_responses,
    otel_traces,
    scored_turns,
    session_keys,
)
from spanscore.store.schema import trace_measures as measures_table

_Row: TypeAlias = tuple[Any, ...]

IdT = TypeVar("IdT")

_MAX_KEY_CHARS = 256
_TRACE_SIZE = list(agent_traces.c.keys()).index("size_bytes")
_SCORE_SIZE = list(evaluations.c.keys()).index("size_bytes")
NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that not every database takes in a text."""

_MAX_IDS = 400  # of which a statement names two lists: old SQLites take 999 parameters

# Built once: to build and to recognise such a statement takes SQLAlchemy longer than the database
# to answer it.
_STORED_TRACES = select(
    agent_traces.c.id, agent_traces.c.size_bytes, agent_traces.c.revision, agent_traces.c.digest
).where(agent_traces.c.id.in_(bindparam("ids", expanding=True)))
_STORED_IDS = select(
    otel_traces.c.trace_id, otel_traces.c.agent_trace_id, otel_traces.c.tenant
).where(otel_traces.c.agent_trace_id.in_(bindparam("ids", expanding=True)))
_SCORED_SUBJECTS = (
    select(evaluations.c.subject_id)
    .where(evaluations.c.subject_id.in_(bindparam("subjects", expanding=True)))
    .distinct()
)
_STORED_SCORES = select(evaluations.c.subject_id, evaluations.c.uid, evaluations.c.seq).where(
    evaluations.c.subject_id.in_(bindparam("subjects", expanding=True)),
    evaluations.c.uid.in_(bindparam("uids", expanding=True)),
)


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
        connection.execute(_measures_of(ids))
        connection.execute(delete(agent_traces).where(agent_traces.c.id.in_(ids)))
        connection.execute(delete(model_responses).where(model_responses.c.agent_trace_id.in_(ids)))
        connection.execute(delete(scored_turns).where(scored_turns.c.agent_trace_id.in_(ids)))
    rows = [
        _trace_row(stored, id_, row, now_ns)
        for row, (id_, stored) in enumerate(newest.items(), after_row + 1)
    ]
    pairs = _otel_rows(stored.trace for stored in newest.values())
    for ids in chunks(list(replaced)):
        pairs.difference_update(map(tuple, connection.execute(_STORED_IDS, {"ids": ids})))
    put_rows(connection, agent_traces, rows)
    measured = enumerate(newest.values(), after_row + 1)
    _put_measures(connection, [(row, stored.trace) for row, stored in measured])
    put_rows(connection, otel_traces, sorted(pairs))
    _note_keys(connection, [stored.trace for stored in newest.values()])
    _note_responses(connection, [stored.trace for stored in newest.values()])
    written: int = sum(row[_TRACE_SIZE] for row in rows)
    return written - sum(replaced.values())


def _stays(row: Any, new: StoredTrace) -> bool:
    """Whether what is stored stays as it is: it came, or is the same, and the new one is
    imported.
    """
    return new.revision == IMPORTED and (row.revision != IMPORTED or row.digest == new.digest)


def _otel_rows(traces: Iterable[AgentTrace]) -> set[_Row]:
    return {(trace_id, x.id, x.tenant) for x in traces for trace_id in x.trace_ids}


def _note_keys(connection: Connection, traces: Sequence[AgentTrace]) -> None:
    """Note which sessions the ids of these traces' sessions stand for, where it is not the id that
    joins them.
    """
    scoped = {
        (key(trace.session_id), key(trace.session_key), trace.tenant)
        for trace in traces
        if trace.session_id is not None
        and trace.session_key is not None
        and trace.session_key != trace.session_id
    }
    for some in chunks(sorted(scoped)):
        there = select(session_keys).where(
            session_keys.c.session_key.in_([session for _, session, _ in some])
        )
        put_rows(
            connection,
            session_keys,
            sorted(set(some).difference(map(tuple, connection.execute(there)))),
        )


def _note_responses(connection: Connection, traces: Sequence[AgentTrace]) -> None:
    rows = {
        (key(response_id), trace.id, trace.tenant)
        for trace in traces
        for response_id in responses_of(trace)
    }
    put_rows(connection, model_responses, sorted(rows))


def _put_measures(connection: Connection, traces: Iterable[tuple[int, AgentTrace]]) -> None:
    """Write what agent traces are ordered by; each comes with its row."""
    rows = [trace_measures.row_of(trace, row) for row, trace in traces]
    put_rows(connection, measures_table, rows)


def _measures_of(ids: Sequence[str]) -> Delete:
    """Deletes what agent traces are ordered by, which are still there themselves."""
    rows = select(agent_traces.c.row).where(agent_traces.c.id.in_(ids))
    return delete(measures_table).where(measures_table.c.row.in_(rows))


def take_out(connection: Connection, ids: Sequence[str]) -> int:
    """Delete agent traces, but for their evaluations, which may have left; returns the bytes that
    went.
    """
    freed_bytes = 0
    for some in chunks(ids):
        freed_bytes += sum(x.size_bytes for x in connection.execute(_STORED_TRACES, {"ids": some}))
        connection.execute(delete(otel_traces).where(otel_traces.c.agent_trace_id.in_(some)))
        connection.execute(
            delete(model_responses).where(model_responses.c.agent_trace_id.in_(some))
        )
        connection.execute(delete(scored_turns).where(scored_turns.c.agent_trace_id.in_(some)))
        connection.execute(_measures_of(some))
        connection.execute(delete(agent_traces).where(agent_traces.c.id.in_(some)))
    return freed_bytes


def put_evaluations(
    connection: Connection, scored: Sequence[Evaluation], after_seq: int, now_ns: int
) -> tuple[list[int], list[Evaluation], int]:
    """Write the evaluations that are new; returns every one's sequence number, those that are new,
    and their bytes.

    The new ones have the numbers from `after_seq` + 1 on.
    """
    identities = [(subject_of(evaluation), evaluation.uid) for evaluation in scored]
    numbers = _numbers(connection, identities)
    new: dict[tuple[str, str], Evaluation] = {}
    for identity, evaluation in zip(identities, scored, strict=True):
        if identity not in numbers:
            after_seq += 1
            numbers[identity] = after_seq
            new[identity] = evaluation
    printed = records.encode_evaluations(new.values())
    rows = [
        _evaluation_row(x, *identity, numbers[identity], record, now_ns)
        for (identity, x), record in zip(new.items(), printed, strict=True)
    ]
    put_rows(connection, evaluations, rows)
    return (
        [numbers[identity] for identity in identities],
        [*new.values()],
        sum(row[_SCORE_SIZE] for row in rows),
    )


def _numbers(
    connection: Connection, identities: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """The sequence numbers of those evaluations, by subject and uid, that are stored; mostly no
    subject has any.
    """
    scored: set[str] = set()
    for some in chunks(list({subject for subject, _ in identities})):
        scored.update(connection.execute(_SCORED_SUBJECTS, {"subjects": some}).scalars())
    numbers: dict[tuple[str, str], int] = {}
    for known in chunks([x for x in identities if x[0] in scored]):
        subjects, uids = zip(*known, strict=True)
        found = connection.execute(_STORED_SCORES, {"subjects": tuple(set(subjects)), "uids": uids})
        numbers.update(((subject, uid), seq) for subject, uid, seq in found)
    return numbers


def subject_of(evaluation: Evaluation) -> str:
    """What an evaluation is of, as columns have it.

    The agent trace's id or the key of the session; of an external score the id of the trace or
    response that it names.
    """
    return key(evaluation.subject_id)


def _trace_row(stored: StoredTrace, id_: str, row: int, now_ns: int) -> _Row:
    trace, record = stored.trace, stored.record or records.encode(stored.trace)
    session = None if trace.session_key is None else key(trace.session_key)
    size_bytes = records.size_bytes(record)
    facts = (
        stored.revision,
        stored.digest,
        session,
        trace.started_ns,
        now_ns,
        size_bytes,
        record,
        trace.tenant,
    )
    return (row, id_, *facts)


def _evaluation_row(
    evaluation: Evaluation, subject: str, uid: str, seq: int, record: str, now_ns: int
) -> _Row:
    return (
        seq,
        subject,
        uid,
        evaluation.scope,
        evaluation.metric,
        evaluation.revision,
        evaluation.evaluated_at_ns,
        now_ns,
        records.size_bytes(record),
        record,
        evaluation.run or "",
        evaluation.tenant,
    )


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
