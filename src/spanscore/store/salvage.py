"""A damaged journal or store written anew with every record that can still be read; the damaged
files are kept aside.

Records are taken from the pages themselves and known by their columns, so it does not matter which
page is damaged: the header, the schema or an index. What is kept is checked as the server would
read it.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy.engine import Connection

from spanscore import private_files
from spanscore.errors import InputError
from spanscore.store import (
    connecting,
    evaluated_sessions,
    external,
    facts,
    ledger,
    records,
    recovering,
    schema,
    transactions,
    writing,
)
from spanscore.store.config import Config
from spanscore.store.ledger import Entry
from spanscore.store.pages import Pages, Record

_LOGS: Final = ("-wal", "-shm")
_CHUNK_ROWS: Final = 500


@dataclass(slots=True)
class Salvaged:
    """What became of a damaged file: where it is now, and how many records of which table were
    saved and lost.

    What is not known to be lost is not in `lost`.
    """

    file: Path
    aside: Path
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)


def fault_of(file: Path) -> str | None:
    """What SQLite finds wrong with a file; None where it is sound, empty, or not there.

    Raises InputError where it cannot be read for another reason.
    """
    if not file.exists():
        return None
    log = file.with_name(f"{file.name}-wal")
    # Closed again, SQLite would remove a log of which it read only a part; where there is none,
    # what it makes stays.
    mode = "ro" if log.exists() and log.stat().st_size else "rw"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True)) as db:
            found = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if recovering.is_damaged(error):
            return str(error)
        raise InputError(f"{file}: cannot be read ({error})") from error
    return None if found is None or found[0] == "ok" else str(found[0]).splitlines()[-1]


def journal(file: Path) -> Salvaged:
    """Write a damaged journal anew. Its ledger stays: the next start counts what it misses.

    Raises OSError where there is no room for the new one; then nothing has changed.
    """
    aside = _aside(file)
    result = Salvaged(file, aside)
    expected = ledger.read(ledger.beside(file))
    made = _new(file)
    db = sqlite3.connect(made)
    try:
        recovering.prepare(db)
        with Pages(file) as pages, db:
            found = _read(pages, _JOURNAL_TABLES)
            headers = recovering.headers_of(found["headers"])
            requests = [x for x in found["requests"] if _is_wanted(x, headers, expected)]
            found["requests"] = requests
            there = {x.rowid for x in requests}
            found["headers"] = [x for x in found["headers"] if x.rowid in there]
            for table, rows in found.items():
                result.saved[table] = _insert(db, table, rows)
            result.unreadable = pages.damaged
    finally:
        db.close()
    if expected.is_there:
        result.lost["requests"] = len(expected.entries.keys() - there)
    else:
        result.notes.append(
            "the journal has no ledger, so it is not known how many requests it lacks"
        )
    _put_in_place(made, file, aside)
    return result


def store(config: Config, file: Path) -> Salvaged:
    """Write a damaged SQLite store anew. Raises as `journal` does."""
    aside = _aside(file)
    result = Salvaged(file, aside)
    made = _new(file)
    engine = connecting.connect(config.model_copy(update={"url": f"sqlite:///{made}"}))
    try:
        with Pages(file) as pages, transactions.transaction(engine) as connection:
            found = _read(pages, _STORE_TABLES)
            result.unreadable = pages.damaged
            traces = _newest_revisions(found, result)
            scores = _decodable(found, "evaluations", _is_evaluation, result)
            given = _decodable(found, "external_scores", _is_evaluation, result)
            for table, rows in (
                ("agent_traces", traces),
                ("evaluations", scores),
                ("external_scores", given),
                *((name, found[name]) for name in _TAKEN_OVER),
            ):
                values = list(
                    {_key(x, table): _whole(_with_rowid(x), table) for x in rows}.values()
                )
                for start in range(0, len(values), _CHUNK_ROWS):
                    writing.put_rows(
                        connection, schema.tables.tables[table], values[start : start + _CHUNK_ROWS]
                    )
                result.saved[table] = len(values)
            for start in range(0, len(traces), _CHUNK_ROWS):
                some = [
                    (x.rowid or 0, records.decode_trace(_text(x, "agent_traces")))
                    for x in traces[start : start + _CHUNK_ROWS]
                ]
                writing.note_traces(connection, [trace for _, trace in some])
                writing.put_measures(connection, some)
            _note_responses(connection, given)
            while facts.fill(connection):
                pass
            # a row of these looks like an index's
            evaluated_sessions.derive(connection)
    finally:
        engine.dispose()
    _count_what_is_lost(found, traces, scores, result)
    _put_in_place(made, file, aside)
    return result


def _note_responses(connection: Connection, rows: Sequence[Record]) -> None:
    scores = records.decode_evaluations(_text(x, "external_scores") for x in rows)
    given = {x.rowid or 0: score for x, score in zip(rows, scores, strict=True)}
    external.note_responses(connection, given.items())


def _count_what_is_lost(
    found: dict[str, list[Record]],
    traces: Sequence[Record],
    scores: Sequence[Record],
    result: Salvaged,
) -> None:
    """Evaluations are numbered without gaps, and name their traces; of the last ones nothing may be
    left that records it.
    """
    numbers = {x.rowid for x in scores if x.rowid is not None}
    cursors = [x.values[1] for x in found["export_cursors"] if isinstance(x.values[1], int)]
    last = max([*numbers, *cursors], default=0)
    result.lost["evaluations"] = last - min(numbers) + 1 - len(numbers) if numbers else last
    ids = {x.values[1] for x in traces}
    result.lost["agent_traces"] = len({x.values[1] for x in scores if x.values[3] == "trace"} - ids)
    if numbers and not cursors:
        result.notes.append(
            "how far the exporters had got is lost: they go on with the scores that come from"
            " now on"
        )


def _read(pages: Pages, tables: "dict[str, Callable[[Record], bool]]") -> dict[str, list[Record]]:
    """The records of each table, those of the newest pages last."""
    found: dict[str, list[Record]] = {name: [] for name in tables}
    for record in pages.records():
        for name, fits in tables.items():
            if fits(record):
                found[name].append(record)
    return found


def _has(*types: type | tuple[type, ...], rowid: bool = True) -> Callable[[Record], bool]:
    """Whether a record has columns of these types, in a table with row ids or in one without."""

    def fits(record: Record) -> bool:
        return (
            (record.rowid is not None) is rowid
            and len(record.values) == len(types)
            and all(isinstance(x, of) for x, of in zip(record.values, types, strict=True))
        )

    return fits


_NULL: Final = type(None)
_JOURNAL_TABLES: Final = {
    "requests": _has(_NULL, str, int, bytes),
    "headers": _has(_NULL, str),
    "quarantine": _has(_NULL, int, str, str, bytes),
    "passed_on": _has(_NULL),
    "closed": _has(bytes, int, int, rowid=False),
    "parts": _has(bytes, rowid=False),
    "held": _has(int, bytes, int, rowid=False),
}


def _may_lack(
    added: int, *types: type | tuple[type, ...], rowid: bool = True
) -> Callable[[Record], bool]:
    """As `_has`, of a table to which the last `added` columns were added: rows from before that
    lack some of them.
    """
    forms = [_has(*types[: len(types) - lacking], rowid=rowid) for lacking in range(added + 1)]
    return lambda record: any(fits(record) for fits in forms)


def _is_deleted_score(record: Record) -> bool:
    """Entries of an index on two texts of another table have columns of the same types."""
    return _has(str, str, int, rowid=False)(record) and bool(_UID.fullmatch(str(record.values[0])))


_UID: Final = re.compile("[0-9a-f]{16}")
_TEXT_OR_NONE: Final = (str, _NULL)
_NUMBER: Final = (float, int)  # a whole number is stored as one, also in a column of other numbers
_TAKEN_OVER: Final = (
    *("judge_answers", "export_cursors", "calibrations", "unanswered", "undelivered"),
    *("runs", "run_items"),
    *(
        "monitors",
        "configured_monitors",
        "monitor_states",
        "monitor_ticks",
        "monitor_scores",
        "alert_notices",
    ),
    *("deleted_scores", "annotation_items"),
)
_STORE_TABLES: Final = {
    "agent_traces": _may_lack(1, _NULL, str, int, str, (str, _NULL), int, int, int, str, str),
    "evaluations": _may_lack(2, _NULL, str, str, str, str, int, int, int, int, str, str, str),
    "external_scores": _may_lack(
        1, _NULL, str, str, (str, _NULL), (str, _NULL), str, int, int, int, str, str
    ),
    "judge_answers": _has(_NULL, str, int, int, str),
    "export_cursors": _has(str, int),
    "calibrations": _may_lack(1, str, int, str, str),
    "undelivered": _has(str, int, str, str, str, int, int, rowid=False),
    "runs": _may_lack(1, str, str, _TEXT_OR_NONE, str, int, int, str, str, str),
    "run_items": _has(str, str, int, str, str, int, int, (str, _NULL), rowid=False),
    "unanswered": _has(str, str, str, str, int, int, int, rowid=False),
    "deleted_scores": _is_deleted_score,
    "annotation_items": _has(*(str,) * 6, int, str, _TEXT_OR_NONE, int, int, rowid=False),
    "monitor_states": _has(str, str, str, int, int, str, rowid=False),
    "monitors": _has(str, str, _TEXT_OR_NONE, str, *(int,) * 5, str, str, rowid=False),
    "configured_monitors": _has(str, str, str, *(int,) * 5, str, str, rowid=False),
    "monitor_ticks": _may_lack(
        3, str, str, int, int, str, int, int, *(_TEXT_OR_NONE,) * 3, rowid=False
    ),
    "monitor_scores": _has(str, str, str, str, _NUMBER, _NUMBER, int, int, rowid=False),
    "alert_notices": _has(_NULL, str, str, str, str, str, int, int, int),
}


def _is_wanted(record: Record, headers: dict[int, str], expected: ledger.Found) -> bool:
    """Whether a request is one that is still needed, and as it was kept."""
    row = record.rowid
    if row is None or row in expected.removed:
        return False
    is_unknown = not expected.is_there or expected.damaged or row > expected.highest
    entry = expected.entries.get(row, Entry(0, 0) if is_unknown else None)
    if entry is None:
        return False
    body = cast("bytes", record.values[3])  # by its table's form
    return entry.checksum is None or entry.checksum == ledger.checksum(body, headers.get(row, ""))


def _newest_revisions(found: Mapping[str, Sequence[Record]], result: Salvaged) -> list[Record]:
    newest: dict[Any, Record] = {}
    for record in _decodable(found, "agent_traces", _is_trace, result):
        before = newest.get(record.values[1])
        if before is None or record.values[2] >= before.values[2]:  # type: ignore[operator]  # integers by the form
            newest[record.values[1]] = record
    return list(newest.values())


def _decodable(
    found: Mapping[str, Sequence[Record]],
    table: str,
    decode: Callable[[str], object],
    result: Salvaged,
) -> list[Record]:
    whole = []
    for record in found[table]:
        try:
            decode(_text(record, table))
        except (ValueError, LookupError, TypeError, AttributeError):
            result.unreadable += 1
        else:
            whole.append(record)
    return whole


def _text(record: Record, table: str) -> str:
    """The JSON of a trace or a score."""
    return str(record.values[schema.tables.tables[table].c.keys().index("record")])


def _is_trace(text: str) -> object:
    return records.decode_trace(text)


def _is_evaluation(text: str) -> object:
    return records.decode_evaluations([text])


def _key(record: Record, table: str) -> Any:
    """What there is one of: a row, or what a table without row numbers counts by."""
    if table in ("export_cursors", "runs"):
        return record.values[0]
    if table == "calibrations":
        key, _stored_ns, _record, tenant = (*record.values, "")[:4]
        return key, tenant
    if table == "judge_answers":
        return record.values[1]
    columns = len(schema.tables.tables[table].primary_key)
    return record.values[:columns] if record.rowid is None else record.rowid


def _with_rowid(record: Record) -> tuple[Any, ...]:
    """The values as SQLite gives them: a number of the row stands where its column has NULL."""
    if record.rowid is not None and record.values[0] is None:
        return (record.rowid, *record.values[1:])
    return record.values


def _whole(values: tuple[Any, ...], table: str) -> tuple[Any, ...]:
    """The values, and for each column that was added after the row was written "", or None where it
    may be.
    """
    columns = list(schema.tables.tables[table].columns)
    return (*values, *(None if x.nullable else "" for x in columns[len(values) :]))


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Record]) -> int:
    values = list(
        {(x.rowid if x.rowid is not None else x.values): _with_rowid(x) for x in rows}.values()
    )
    if not values:
        return 0
    marks = ", ".join("?" * len(values[0]))
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)  # noqa: S608 - a name of this file
    return len(values)


def _aside(file: Path) -> Path:
    return file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")


def _new(file: Path) -> Path:
    """An empty file beside the damaged one, with nothing left of an attempt before."""
    made = file.with_name(f"{file.name}.repaired")
    for suffix in ("", *_LOGS):
        made.with_name(f"{made.name}{suffix}").unlink(missing_ok=True)
    private_files.make(made)
    return made


def _put_in_place(made: Path, file: Path, aside: Path) -> None:
    """The damaged files first: whatever this is interrupted at, the new one is never read with the
    old one's log.
    """
    for suffix in reversed(("", *_LOGS)):
        with suppress(FileNotFoundError):
            file.with_name(f"{file.name}{suffix}").replace(aside.with_name(f"{aside.name}{suffix}"))
    made.replace(file)
