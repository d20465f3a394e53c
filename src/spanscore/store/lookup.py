"""Statements that find what belongs to traces or sessions.

A `tenant` None stands for all: no two tenants share an id that spanscore has made, so it needs none
to look these up.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Row, Select, bindparam, func, select
from sqlalchemy.engine import Connection, Engine

from spanscore.errors import RetryableError
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.store import connections, records, schema, stored_rows
from spanscore.store.config import Config
from spanscore.store.connections import snapshot
from spanscore.store.schema import NEWEST, agent_traces, otel_traces, scores as scores_table
from spanscore.store.stored_rows import chunks, matching

MAX_SESSION_TRACES = 1000
"""Agent traces of a session that are read at most, the newest: a session id may be shared by
everything there is.
"""

MAX_SESSION_BYTES = 16 * 2**20
"""Bytes of their records at most; the newest trace is always read."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it stood at one moment.

    `revision` is the highest of the session's own evaluations, 0 before the first. `scores` are the
    newest of each (subject, metric), the session's own and those of its traces, in the order in
    which they were committed. All agent traces up to `until_row`, a row of the store's, were there
    when it was read; 0 where it was not read from a store.
    """

    session: Session
    revision: int
    scores: list[Evaluation]
    until_row: int = 0


class _TraceRow(NamedTuple):
    session: str
    id: str
    record: str


class _ScoreRow(NamedTuple):
    scope: str
    subject: str
    record: str


@dataclass(frozen=True, slots=True)
class StoredSessions:
    """What is stored of some sessions, by their keys: agent traces, oldest first, and scores, not
    decoded yet; `until_row` is as of `SessionRecord`. `known` are traces that need no decoding, by
    their ids.
    """

    keys: tuple[str, ...]
    traces: Sequence[_TraceRow]
    scores: Sequence[_ScoreRow]
    until_row: int = 0
    known: Mapping[str, AgentTrace] = field(default_factory=dict)

    def decoded(self) -> list[SessionRecord]:
        """Those that have traces, in the order of their keys; damaged records are left out."""
        found = self.by_key()
        return [found[key] for key in self.keys if key in found]

    def by_key(self) -> dict[str, SessionRecord]:
        """As `decoded`, by their keys."""
        turns_of: dict[str, list[AgentTrace]] = defaultdict(list)
        scores_of: dict[str, list[Evaluation]] = defaultdict(list)
        for row in self.traces:
            known = self.known.get(row.id)
            turns_of[row.session] += (
                [known] if known else records.undamaged(records.decode_trace, row.record)
            )
        key_of = {row.id: row.session for row in self.traces}
        scores = records.undamaged_evaluations([row.record for row in self.scores])
        for score, found in zip(self.scores, scores, strict=True):
            scores_of[key_of[score.subject] if score.scope == "trace" else score.subject] += found
        return {
            key: _session_record(key, turns, scores_of[key], self.until_row)
            for key, turns in turns_of.items()
            if turns
        }


def newest_of_sessions(
    connection: Connection, keys: Iterable[str]
) -> dict[tuple[str, str], tuple[int, str]]:
    """The newest revision of each session's metrics, and its uid; none of evaluation runs."""
    table = scores_table.c
    columns = select(table.subject_id, table.metric, table.revision, table.uid)
    wanted = columns.where(table.scope == "session", table.run == "", NEWEST)
    return {
        (subject, metric): (revision, uid)
        for subject, metric, revision, uid in matching(connection, wanted, table.subject_id, keys)
    }


def left_over(
    connection: Connection, trace_ids: Collection[str], ids: Collection[str], tenant: str
) -> list[str]:
    """A tenant's agent traces that are all in these OTel traces, but for those with one of these
    `ids`.
    """
    of_traces = (
        select(otel_traces.c.agent_trace_id).where(otel_traces.c.tenant == tenant).distinct()
    )
    found = {x for (x,) in matching(connection, of_traces, otel_traces.c.trace_id, trace_ids)}
    lost = found.difference(ids)
    pairs = select(otel_traces.c.agent_trace_id, otel_traces.c.trace_id)
    others = matching(connection, pairs, otel_traces.c.agent_trace_id, lost)
    return sorted(lost.difference([id_ for id_, trace_id in others if trace_id not in trace_ids]))


def turns(connection: Connection, trace_id: str, tenant: str | None) -> list[str]:
    """The ids of the agent traces that `trace_id`, an agent trace id or an OTel trace id, stands
    for.
    """
    lowered, table = trace_id.lower(), agent_traces.c
    known = select(table.id).where(table.id == lowered, *stored_rows.is_of(agent_traces, tenant))
    if connection.execute(known).scalar():
        return [lowered]
    wanted = (otel_traces.c.trace_id == lowered, *stored_rows.is_of(otel_traces, tenant))
    query = select(otel_traces.c.agent_trace_id).where(*wanted)
    return list(connection.execute(query.limit(MAX_SESSION_TRACES)).scalars())


def session_keys(connection: Connection, key: str, tenant: str | None) -> list[str]:
    """`key`, and the keys of the sessions whose id it is in some namespace."""
    table = schema.session_keys.c
    query = select(table.session_key).where(
        table.session_id == key, *stored_rows.is_of(schema.session_keys, tenant)
    )
    return [key, *sorted(connection.execute(query).scalars())]


def sessions_of(connection: Connection, key: str, tenant: str | None) -> list[str]:
    """Those of `session_keys` of which there are agent traces."""
    keys = session_keys(connection, key, tenant)
    stored = stored_sessions(connection, keys, tenant)
    return [x for x in keys if x in stored]


def stored_sessions(connection: Connection, keys: Sequence[str], tenant: str | None) -> set[str]:
    """Those of these keys of sessions of which there are agent traces."""
    column = agent_traces.c.session_id
    there = select(column).where(*stored_rows.is_of(agent_traces, tenant)).distinct()
    return {x for (x,) in matching(connection, there, column, keys)}


def session_traces(
    connection: Connection, keys: Sequence[str], tenant: str | None
) -> list[Row[Any]]:
    """(started_ns, row, session_id, id, digest, record) of the newest agent traces of these
    sessions, oldest first.
    """
    found: list[Row[Any]] = []
    for some in chunks(keys):
        found += connection.execute(_SESSION_TRACES, {"keys": some, "tenant": tenant}).all()
    return sorted(found, key=itemgetter(0, 1))  # the database would copy every record to sort them


def session_trace_ids(connection: Connection, keys: Sequence[str], tenant: str | None) -> list[str]:
    """The ids of the same agent traces, in no order."""
    found: list[str] = []
    for some in chunks(keys):
        found += connection.execute(_SESSION_TRACE_IDS, {"keys": some, "tenant": tenant}).scalars()
    return found


class RecentTurns:
    """The turns of sessions that were committed or read last, so that the next turn of theirs need
    not read them; of at most `max_bytes` of records.
    """

    def __init__(self, max_bytes: int = 8 * 2**20) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        # by id and digest, which a change of the record changes
        self._turns: dict[tuple[str, str], tuple[AgentTrace, int]] = {}
        self._lock = threading.Lock()

    def add(self, trace: AgentTrace, digest: str, size_bytes: int) -> None:
        """Remember a turn, and forget the oldest that are too many."""
        with self._lock:
            _, known_bytes = self._turns.pop((trace.id, digest), (None, 0))
            self._turns[trace.id, digest] = trace, size_bytes
            self._bytes += size_bytes - known_bytes
            while self._bytes > self._max_bytes:
                _, size_bytes = self._turns.pop(next(iter(self._turns)))
                self._bytes -= size_bytes

    def get(self, trace_id: str, digest: str) -> AgentTrace | None:
        """A turn, if it is remembered."""
        return self._turns.get((trace_id, digest), (None,))[0]

    def before(
        self, connection: Connection, key: str, trace: AgentTrace, limit: int, max_bytes: int
    ) -> list[AgentTrace]:
        """The newest turns of a session that began before `trace`, oldest first, within both
        bounds.
        """
        parameters = {"key": key, "started_ns": trace.started_ns, "id_": trace.id, "most": limit}
        newest = connection.execute(_BEFORE, parameters).all()
        sizes = accumulate(row.size_bytes for row in newest)
        rows = [row for row, total in zip(newest, sizes, strict=True) if total <= max_bytes]
        known = {x.row: self.get(x.id, x.digest) for x in rows}
        unread = {"rows": [row for row, turn in known.items() if turn is None]}
        texts = {}
        if unread["rows"]:
            texts = {x.row: x.record for x in connection.execute(_RECORDS, unread)}
        found: list[AgentTrace] = []
        for row in reversed(rows):
            turn = known[row.row]
            if turn is not None:
                found.append(turn)
            elif row.row in texts:
                for read in records.undamaged(records.decode_trace, texts[row.row]):
                    self.add(read, row.digest, row.size_bytes)
                    found.append(read)
        return found


def newest_scores(
    connection: Connection,
    traces: Sequence[str],
    sessions: Sequence[str],
    tenant: str | None,
    run: str = "",
) -> list[Row[Any]]:
    """(number, scope, subject_id, record) of the newest score of each (subject, metric), in commit
    order.

    Of these traces, by agent trace id, and of these sessions, by key; as they came, or of an
    evaluation run.
    """
    found: list[Row[Any]] = []
    for scope, subjects in (("trace", traces), ("session", sessions)):
        for some in chunks(subjects):
            parameters = {"scope": scope, "subjects": some, "run": run, "tenant": tenant}
            found += connection.execute(_NEWEST_SCORES, parameters).all()
    return sorted(found, key=itemgetter(0))


def scores_of_traces(
    connection: Connection, ids: Iterable[str], tenant: str | None
) -> dict[str, list[Evaluation]]:
    """The newest scores that these agent traces got as they came; damaged ones are left out."""
    found: dict[str, list[Evaluation]] = {id_: [] for id_ in ids}
    for row, score in stored_rows.read_scores(newest_scores(connection, list(found), [], tenant)):
        if row.subject_id in found:  # a damaged row may differ from the index by which it was found
            found[row.subject_id].append(score)
    return found


def read_sessions(
    connection: Connection,
    keys: Sequence[str],
    tenant: str | None,
    recent: RecentTurns | None = None,
) -> StoredSessions:
    """What is stored of these sessions, as of one moment where the connection reads so; traces that
    are `recent` are not decoded.
    """
    rows = session_traces(connection, keys, tenant)
    known = {x.id: recent.get(x.id, x.digest) for x in rows} if recent else {}
    scores = newest_scores(connection, [x.id for x in rows], keys, tenant)
    return StoredSessions(
        tuple(keys),
        [_TraceRow(x.session_id, x.id, x.record) for x in rows],
        [_ScoreRow(row.scope, row.subject_id, row.record) for row in scores],
        stored_rows.last_row(connection),
        {name: turn for name, turn in known.items() if turn is not None},
    )


def _session_record(
    key: str, turns: Sequence[AgentTrace], scores: list[Evaluation], until_row: int
) -> SessionRecord:
    # the traces have the id itself, even where the key is its hash
    session_id = turns[-1].session_id or key
    revision = max((x.revision for x in scores if x.scope == "session"), default=0)
    return SessionRecord(Session(session_id, tuple(turns)), revision, scores, until_row)


def _of_sessions(*columns: Column[Any]) -> Select[Any]:
    table = agent_traces.c
    newest_first: Any = {
        "partition_by": table.session_id,
        "order_by": (table.started_ns.desc(), table.row.desc()),
        "rows": (None, 0),
    }
    place = func.row_number().over(**newest_first).label("place")
    total_bytes = func.sum(table.size_bytes).over(**newest_first).label("total_bytes")
    of_sessions = (
        table.session_id.in_(bindparam("keys", expanding=True)),
        stored_rows.is_parameter(table.tenant),
    )
    placed = select(table.row, place, total_bytes).where(*of_sessions).subquery().c
    is_small = (placed.total_bytes <= MAX_SESSION_BYTES) | (placed.place == 1)
    return select(*columns).where(
        table.row.in_(select(placed.row).where(placed.place <= MAX_SESSION_TRACES, is_small))
    )


def _newest_of_subjects() -> Select[Any]:
    table = scores_table.c
    return select(table.number, table.scope, table.subject_id, table.record).where(
        table.subject_id.in_(bindparam("subjects", expanding=True)),
        table.scope == bindparam("scope"),
        table.run == bindparam("run"),
        stored_rows.is_parameter(table.tenant),
        NEWEST,
    )


# Built once: SQLAlchemy takes longer to build and to recognise such a statement than the database
# to answer it.
_SESSION_TRACES = _of_sessions(
    *(
        agent_traces.c[name]
        for name in ("started_ns", "row", "session_id", "id", "digest", "record")
    )
)
_SESSION_TRACE_IDS = _of_sessions(agent_traces.c.id)
_BEFORE = (
    select(agent_traces.c.row, agent_traces.c.id, agent_traces.c.digest, agent_traces.c.size_bytes)
    .where(
        agent_traces.c.session_id == bindparam("key"),
        agent_traces.c.started_ns < bindparam("started_ns"),
        agent_traces.c.id != bindparam("id_"),
    )
    .order_by(agent_traces.c.started_ns.desc(), agent_traces.c.row.desc())
    .limit(bindparam("most"))
)
_RECORDS = select(agent_traces.c.row, agent_traces.c.record).where(
    agent_traces.c.row.in_(bindparam("rows", expanding=True))
)
_NEWEST_SCORES = _newest_of_subjects()


_MOST_BYTES: Final = 8 * 2**20
"""Of the records of the traces that are read at once, but for a session that has more."""

_SIZES = (
    select(agent_traces.c.session_id, func.sum(agent_traces.c.size_bytes))
    .where(
        agent_traces.c.session_id.in_(bindparam("keys", expanding=True)),
        stored_rows.is_parameter(agent_traces.c.tenant),
    )
    .group_by(agent_traces.c.session_id)
)


class SessionReader:
    """Reads and never writes. Not thread-safe."""

    def __init__(self, config: Config, most_bytes: int = _MOST_BYTES) -> None:
        """Nothing is opened before the first sessions are read."""
        self._config = config
        self._most_bytes = most_bytes
        self._engine: Engine | None = None

    def read(
        self, keys: Sequence[str], tenant: str | None = None
    ) -> tuple[StoredSessions, tuple[str, ...]]:
        """What is stored of the first of these sessions, by their keys, and the keys of the rest,
        which are read another time: together they would take too much memory.

        Raises SpanscoreError where the store cannot be read, such as a PostgreSQL that hangs.
        """
        if self._engine is None:
            self._engine = connections.connect_reading(self._config, is_limited=True)
        if self._engine is None:
            raise RetryableError("there is no store", why="store")
        with snapshot(self._engine) as connection:
            found = connection.execute(_SIZES, {"keys": keys, "tenant": tenant}).all()
            sizes = {key: int(size_bytes) for key, size_bytes in found}
            count = self._fitting([min(sizes.get(x, 0), MAX_SESSION_BYTES) for x in keys])
            return read_sessions(connection, keys[:count], tenant), tuple(keys[count:])

    def _fitting(self, sizes_bytes: Sequence[int]) -> int:
        """How many of the first sessions are read together, by the sizes of all; at least one."""
        total_bytes = 0
        for count, size_bytes in enumerate(sizes_bytes):
            total_bytes += size_bytes
            if count and total_bytes > self._most_bytes:
                return count
        return len(sizes_bytes)
