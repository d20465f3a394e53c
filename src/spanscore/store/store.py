"""The store of traces, scores, outbox and answers."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Column, ColumnElement, func, insert, select, update
from sqlalchemy.engine import Connection

from spanscore.errors import ConfigError, ConflictError, PermanentError, RetryableError
from spanscore.model.external import newest
from spanscore.model.score import Evaluation, Undelivered
from spanscore.model.trace import AgentTrace
from spanscore.store import (
    annotation,
    external,
    given_scores,
    judges,
    kept_scores,
    listing,
    lookup,
    pending,
    placement,
    records,
    schema,
    session_lists,
    stored_rows,
)
from spanscore.store.annotation import Annotation
from spanscore.store.calibrations import Labels
from spanscore.store.config import Config
from spanscore.store.connections import MEMORY
from spanscore.store.database import NO_GUARD, Database, Pruned, prune_step, secret, stored_bytes
from spanscore.store.given_scores import GivenScores
from spanscore.store.lookup import MAX_SESSION_TRACES, SessionRecord
from spanscore.store.monitors import MonitorStore, last_read
from spanscore.store.pending import Missing, Unanswered
from spanscore.store.runs import RunTables
from spanscore.store.schema import agent_traces, marks, scores as stored_scores
from spanscore.store.stored_rows import IMPORTED, StoredTrace

__all__ = ["MAX_SESSION_TRACES", "Missing", "SessionRecord", "Store", "StoredTrace", "Unanswered"]

_log = logging.getLogger(__name__)

ItemT = TypeVar("ItemT")

_ELSEWHERE_NS = 2 * 10**9
"""How long a session that another server evaluates is left alone."""

_IS_EXPORTED = marks.c.kind == "exported"

_PRUNED_TO = 0.9  # of max_bytes, so that a full store is not pruned for every commit


P = ParamSpec("P")
_Reading: TypeAlias = Callable[Concatenate[Connection, P], ItemT]
_Method: TypeAlias = Callable[Concatenate["Store", P], ItemT]


def _reads(ask: _Reading[P, ItemT]) -> _Method[P, ItemT]:
    """A method that gives what `ask` does, of what is stored as of one moment."""

    @wraps(ask)
    def method(store: "Store", /, *args: P.args, **named: P.kwargs) -> ItemT:
        return store.read(lambda connection: ask(connection, *args, **named))

    return method


def _writes(change: _Reading[P, ItemT]) -> _Method[P, ItemT]:
    """A method that gives what `change` does, once all that it wrote is committed."""

    @wraps(change)
    def method(store: "Store", /, *args: P.args, **named: P.kwargs) -> ItemT:
        return store.write(lambda connection: change(connection, *args, **named))

    return method


class Store:
    """Every method may be called from any thread, and blocks while it reads or writes.

    All but the judge's cache raise RetryableError where the database cannot be used now (locked,
    full, unreachable, damaged), and PermanentError where waiting will not help (a record that the
    database refuses).

    What a `tenant` asks for is found among what that tenant has; "" is the one of a server without
    tenants. None stands for all of them, for spanscore itself: no two share an id of an agent
    trace, or a key of a session.
    """

    def __init__(self, database: Database, config: Config, clock_ns: Callable[[], int]) -> None:
        """Use `Store.open` instead."""
        self._database = database
        self._config = config
        self._clock_ns = clock_ns
        self._recent_turns = lookup.RecentTurns()
        self._last_seq = self._last_row = self._last_answer = self._size_bytes = 0
        with database.reading() as connection:
            self._take_stock(connection)
        database.changed = self._take_numbers if self.is_shared else self._take_stock
        self.annotation = Annotation(database, clock_ns)
        """Who labels what next."""
        self.labels = Labels(database)
        """The labels of people, beside the judge's scores of the same."""
        self.given = GivenScores(database, self._grow, clock_ns)
        """The scores that others gave, to create, change and delete them one by one."""

    @classmethod
    def open(
        cls,
        config: Config,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        alone: bool = False,
        guard: AbstractContextManager[object] = NO_GUARD,
    ) -> "Store":
        """Open the database, and create its tables where there are none.

        A server opens a file `alone`: no other can until this one is closed or its process ends.
        Without that, no other process may write. A PostgreSQL is shared by all that open it.
        `guard` is held while SQLite works. Raises ConfigError where it cannot be opened, was
        written by a newer spanscore, or is another server's.
        """
        database = Database(config, alone=alone, guard=guard)
        try:
            return cls(database, config, clock_ns)
        except (RetryableError, PermanentError) as error:
            database.close()
            raise ConfigError(f"store.url: {error}") from error

    @property
    def trouble(self) -> str | None:
        """Why the database could not be used when it last was tried; None where it could."""
        return self._database.trouble

    @property
    def is_in_memory(self) -> bool:
        """Whether it ends with the process, and no other can use it."""
        return self._config.url == MEMORY

    @property
    def is_shared(self) -> bool:
        """Whether several servers may write to it at once."""
        return self._database.locks is not None

    def lead(self) -> bool:
        """Do what one of all servers does, where none does; whether this one does it now."""
        locks = self._database.locks
        return locks is None or locks.lead()

    def try_again(self) -> None:
        """Find out whether the database can be used again, where it could not."""
        if self._database.trouble is not None:
            self._database.try_again()

    @property
    def shared_url(self) -> str | None:
        """The URL at which other servers can use it too; None of SQLite."""
        return self._config.url if self.is_shared else None

    @property
    def monitors(self) -> MonitorStore:
        """What monitors read and keep."""
        return MonitorStore(self._database)

    @property
    def last_seq(self) -> int:
        """The outbox's highest sequence number so far; 0 before the first."""
        return self._last_seq

    @property
    def size_bytes(self) -> int:
        """Bytes of the records held, without the database's own overhead."""
        return self._size_bytes

    @property
    def page_key(self) -> bytes:
        """The key with which page tokens are sealed: the same in all servers on this store."""
        return secret(self._database, "page tokens")

    def commit(
        self,
        traces: Sequence[StoredTrace],
        scored: Sequence[Evaluation],
        *,
        gone: Sequence[str] = (),
        missing: Sequence[Missing] = (),
        evaluated: Mapping[str, int] = MappingProxyType({}),
        also: Callable[[RunTables], None] | None = None,
    ) -> list[int]:
        """Keep traces and evaluations in one transaction; returns the evaluations' outbox sequence
        numbers, in order.

        A trace takes the place of its earlier revision, an imported one of none that came; the
        agent traces with the ids `gone` are put out of it. An evaluation that is there already, by
        its `uid`, is ignored and keeps the number that it has. Numbers rise by one from commit to
        commit, without gaps. `missing` is kept until it is evaluated without being missing again.
        `evaluated` has the sessions that were evaluated, by their keys, with the `until_row` of
        what was read of them. `also` writes of evaluation runs in the same transaction.

        Raises ConflictError where another server has committed a trace, or other scores of a
        session, as this revision: nothing is kept. A session of which it has committed the same
        score is open as it was.
        """
        now_ns = self._clock_ns()
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                if self.is_shared:
                    _refuse_outdated(connection, traces, scored)
                left = None
                if placement.is_needed(connection):
                    left = placement.named_by(connection, gone)
                    # what is there already, imported or an earlier revision, may lose responses
                    left |= placement.of_responses(connection, [x.trace.id for x in traces])
                gone_bytes = stored_rows.take_out(connection, gone)
                pending.forget_traces(connection, gone)
                trace_bytes = (
                    stored_rows.put_traces(connection, traces, self._last_row, now_ns) - gone_bytes
                )
                kept_scores.set_aside(connection, gone)
                numbers, new, score_bytes = kept_scores.put(
                    connection,
                    scored,
                    [x.trace for x in traces],
                    after=self._last_seq,
                    now_ns=now_ns,
                    removed=left,
                )
                pending.note_missing(
                    connection, [x for x in scored if x.run is None], missing, now_ns
                )
                if evaluated:
                    outdated = {*map(stored_rows.subject_of, scored)}
                    outdated.difference_update(map(stored_rows.subject_of, new))
                    stored_rows.note(
                        connection, {k: row for k, row in evaluated.items() if k not in outdated}
                    )
                if also is not None:
                    also(RunTables(connection))
            self._last_row += len(traces)
            self._last_seq = max(self._last_seq, *numbers, 0)
            self._size_bytes += trace_bytes + score_bytes
        for x in traces:
            if x.trace.session_key is not None and x.record is not None:
                self._recent_turns.add(x.trace, x.digest, len(x.record))
        return numbers

    def trace(self, trace_id: str, *, tenant: str | None = "") -> AgentTrace | None:
        """The trace with this agent trace id, else the first turn of the OTel trace with this
        id; None where there is none, or its record is damaged.
        """
        query = (
            select(agent_traces.c.record)
            .order_by(agent_traces.c.started_ns, agent_traces.c.row)
            .limit(1)
        )
        with self._database.reading() as connection:
            turns = lookup.turns(connection, trace_id, tenant)
            found = connection.execute(
                query.where(agent_traces.c.id.in_(turns))
            ).scalar_one_or_none()
        if found is None:
            return None
        return next(iter(records.undamaged(records.decode_trace, found)), None)

    def turns_before(self, trace: AgentTrace, *, limit: int, max_bytes: int) -> list[AgentTrace]:
        """The newest turns of the session of `trace` that began before it, oldest first; [] without
        a session.

        At most `limit`, and of these no more than `max_bytes` of records: the oldest are left out.
        """
        if trace.session_key is None:
            return []
        with self._database.reading() as connection:
            key = stored_rows.key(trace.session_key)
            return self._recent_turns.before(connection, key, trace, limit, max_bytes)

    def sessions(self, ids: Sequence[str], *, tenant: str | None = "") -> list[SessionRecord]:
        """Those of these sessions that have traces, all as of one moment, in the order of `ids`.

        Each with its agent traces, the newest `MAX_SESSION_TRACES` of them, oldest first.
        """
        return self.stored_sessions(ids, tenant=tenant).decoded()

    def stored_sessions(
        self, ids: Sequence[str], *, tenant: str | None = ""
    ) -> lookup.StoredSessions:
        """As `sessions`, but not decoded."""
        keys = list({stored_rows.key(session_id): None for session_id in ids})
        with self._database.reading() as connection:
            return lookup.read_sessions(connection, keys, tenant, self._recent_turns)

    def session_keys(self, session_id: str, *, tenant: str | None = "") -> list[str]:
        """The keys of the stored sessions with this id, one for each namespace; a key stands for
        its session.
        """
        with self._database.reading() as connection:
            return lookup.sessions_of(connection, stored_rows.key(session_id), tenant)

    def evaluations(
        self,
        *,
        trace_id: str | None = None,
        session_id: str | None = None,
        run: str = "",
        tenant: str | None = "",
    ) -> list[Evaluation]:
        """The newest revision of each (subject, metric), in the order in which they were committed.

        Of a trace, by agent trace id or OTel trace id; of a session, by its key or its id: its own
        and those of its traces. An id that is one in several namespaces stands for all these
        sessions. Those of an evaluation `run`; "": those that were made as the traces came.
        """
        with self._database.reading() as connection:
            traces, sessions = _subjects(connection, trace_id, session_id, tenant)
            traces += lookup.session_trace_ids(connection, sessions, tenant)
            scores = lookup.newest_scores(connection, traces, sessions, tenant, run)
        return [
            x
            for found in records.undamaged_evaluations([row.record for row in scores])
            for x in found
        ]

    def score(self, uid: str, *, tenant: str = "") -> Evaluation | None:
        """The score with this uid, whatever its revision, ours or what others gave; None where
        there is none, or its record is damaged.
        """
        with self._database.reading() as connection:
            has_uid = stored_rows.has_uid(connection, [uid])
            wanted = select(stored_scores.c.number, stored_scores.c.record).where(*has_uid)
            of_tenant = wanted.where(*stored_rows.is_of(stored_scores, tenant))
            _, found = max(map(tuple, connection.execute(of_tenant)), default=(0, ""))
        return next(iter(records.undamaged(records.decode_evaluation, found)), None)

    def put_external(self, scores: Sequence[Evaluation]) -> list[Evaluation]:
        """Keep scores that others gave; those that are there, by their `uid`, are ignored.

        Returns those that are new.
        """
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                new, added_bytes = kept_scores.put_given(connection, scores, self._clock_ns())
            self._size_bytes += added_bytes
        return new

    def external_scores(
        self,
        *,
        trace_id: str | None = None,
        session_id: str | None = None,
        session_key: str | None = None,
        tenant: str | None = "",
    ) -> list[Evaluation]:
        """The scores that others gave, each source's last, in the order in which they were given.

        Of a trace, by agent trace id or OTel trace id, whether or not it is stored; of a session,
        by its key or its id: its own and those of its traces. What is of an OTel trace with several
        turns, and of none of them, is given for that OTel trace alone. The arguments are as for
        `evaluations`; `session_key` stands for its own session alone.
        """
        with self._database.reading() as connection:
            traces, sessions = _subjects(connection, trace_id, session_id, tenant)
            sessions += [] if session_key is None else [stored_rows.key(session_key)]
            wanted = {*traces, *lookup.session_trace_ids(connection, sessions, tenant)}
            named = {trace_id.lower()} if trace_id else set()
            trace_ids = external.otel_ids(connection, sorted(wanted)) | named
            given = external.of_traces(connection, trace_ids, wanted, tenant)
            of_sessions = external.of_sessions(connection, sessions, tenant) if sessions else []
        # and not of other turns of the same traces
        own = [x for x in given.scores if x.subject_id in wanted | named]
        return newest([*own, *(x for x in given.of_no_turn if x.subject_id in named), *of_sessions])

    def read(self, ask: Callable[[Connection], ItemT]) -> ItemT:
        """What `ask` gives of what is stored, as of one moment."""
        with self._database.reading() as connection:
            return ask(connection)

    def write(self, change: Callable[[Connection], ItemT]) -> ItemT:
        """What `change` gives, once all that it wrote is committed."""
        with self._database.writing() as connection:
            return change(connection)

    known = _reads(stored_rows.known)
    left_over = _reads(lookup.left_over)
    list_scores = _reads(listing.scores)
    list_traces = _reads(listing.traces)
    list_sessions = _reads(session_lists.sessions)
    undelivered = _reads(pending.counts)
    to_send_again = _reads(pending.to_resend)
    settle = _writes(pending.settle)
    count_unanswered = _reads(pending.count)
    put_off = _writes(pending.put_off)
    make_due = _writes(pending.make_due)
    forget = _writes(pending.forget_missing)
    give_up = _writes(pending.give_up)
    unanswered = _reads(pending.due)

    def open_sessions(self, since_ns: int | None = None) -> list[tuple[str, int]]:
        """(session key, Unix ns when its last trace was stored) of sessions that went on since
        their last evaluation, with `since_ns` only those that went on since then.
        """
        with self._database.reading() as connection:
            return stored_rows.still_open(connection, since_ns=since_ns)

    def claim_sessions(
        self, keys: Sequence[str], quiet_since_ns: int, *, again: Collection[str] = ()
    ) -> tuple[list[str], dict[str, int]]:
        """Keep other servers from evaluating sessions until `release_sessions`.

        Returns those that this server is to evaluate, and when the others were last heard of: they
        went on after `quiet_since_ns` on another server, or one evaluates them now. Who is in
        neither was evaluated by another server. `again` are evaluated though they have not gone on.
        """
        locks = self._database.locks
        if locks is None:
            return list(keys), {}
        by_key = {stored_rows.key(x): x for x in keys}
        taken = locks.take(list(by_key))
        try:
            with self._database.reading() as connection:
                gone_on = dict(stored_rows.still_open(connection, keys=taken))
        except BaseException:
            locks.let_go(taken)
            raise
        due = gone_on.keys() | {stored_rows.key(x) for x in again}
        later = {key: last_ns for key, last_ns in gone_on.items() if last_ns > quiet_since_ns}
        mine = [key for key in taken if key in due - later.keys()]
        locks.let_go([key for key in taken if key not in mine])
        later |= dict.fromkeys(by_key.keys() - set(taken), quiet_since_ns + _ELSEWHERE_NS)
        return [by_key[key] for key in mine], {by_key[key]: at for key, at in later.items()}

    def release_sessions(self, keys: Sequence[str]) -> None:
        """Let other servers evaluate these sessions."""
        if self._database.locks is not None:
            self._database.locks.let_go([stored_rows.key(x) for x in keys])

    def read_runs(self, ask: Callable[[RunTables], ItemT]) -> ItemT:
        """What `ask` gives of the evaluation runs, as of one moment."""
        with self._database.reading() as connection:
            return ask(RunTables(connection))

    def write_runs(self, change: Callable[[RunTables], ItemT]) -> ItemT:
        """What `change` gives, once all that it wrote is committed."""
        with self._database.writing() as connection:
            return change(RunTables(connection))

    def delete_run_step(self, run_id: str, *, with_scores: bool) -> bool:
        """Delete some of an evaluation run; returns whether that was all."""
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                is_all, freed_bytes = RunTables(connection).delete_step(
                    run_id, with_scores=with_scores
                )
            self._size_bytes -= freed_bytes
        return is_all

    def newest_seq(self) -> int:
        """The outbox's highest sequence number as of now, whichever server gave it out."""
        if self.is_shared:
            with self._database.reading() as connection:
                newest = _highest(connection, stored_scores.c.number)
            with self._database.one_at_a_time:
                self._last_seq = max(self._last_seq, newest)
        return self._last_seq

    def outbox(self, after: int, limit: int) -> list[tuple[int, Evaluation]]:
        """At most `limit` evaluations with sequence numbers above `after`, in their order.

        Those that are damaged are logged and left out.
        """
        number = stored_scores.c.number
        query = select(number, stored_scores.c.record).where(number > after)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(number).limit(limit)).all()
        scored = records.undamaged_evaluations([row.record for row in rows])
        found = [(row.number, x) for row, some in zip(rows, scored, strict=True) for x in some]
        return found if found or not rows else self.outbox(rows[-1].number, limit)

    def cursor(self, exporter: str) -> int | None:
        """The last sequence number that `exporter` is done with; None for an exporter that is new
        here.
        """
        with self._database.reading() as connection:
            return connection.execute(
                select(marks.c.number).where(_IS_EXPORTED, marks.c.name == exporter)
            ).scalar()

    def set_cursor(self, exporter: str, seq: int, undelivered: Sequence[Undelivered] = ()) -> None:
        """Remember that `exporter` is done with everything up to `seq`, and what of it could not be
        delivered.
        """
        with self._database.writing() as connection:
            pending.note_undelivered(connection, undelivered)
            changed = connection.execute(
                update(marks).where(_IS_EXPORTED, marks.c.name == exporter).values(number=seq)
            )
            if not changed.rowcount:
                is_new = {"kind": "exported", "name": exporter, "tenant": "", "number": seq}
                connection.execute(insert(marks).values(is_new))

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The judge's answers kept under any of `keys`, by key. Nothing is raised."""
        try:
            with self._database.reading() as connection:
                return judges.find(connection, keys)
        except (RetryableError, PermanentError) as error:
            _log.warning("judge cache: %s", error)
            return {}

    def put(self, answers: Mapping[str, str]) -> None:
        """Keep each of a judge's answers under its key, in one transaction. Nothing is raised."""
        if not answers:
            return
        try:
            with self._database.one_at_a_time:
                with self._database.writing() as connection:
                    grown = judges.keep(connection, answers, self._last_answer, self._clock_ns())
                self._last_answer += len(answers)
                self._grow(grown)
        except (RetryableError, PermanentError) as error:
            _log.warning("judge cache: %s", error)

    def prune(self, now_ns: int) -> int:
        """Delete what retention no longer keeps, oldest first; returns how many agent traces went.

        Evaluations go at their age whether delivered or not: an exporter that was blocked for
        longer than `max_age` loses what it had not taken by then.
        """
        bounds = self._config.retention
        traces = records = 0
        self._measure()
        if bounds.max_age is not None:
            while (pruned := self._prune_step(now_ns - bounds.max_age)).records:
                traces += pruned.traces
                records += pruned.records
        if bounds.max_bytes is not None and self._size_bytes > bounds.max_bytes:
            while (
                self._size_bytes > bounds.max_bytes * _PRUNED_TO
                and (pruned := self._prune_step(None)).records
            ):
                traces += pruned.traces
                records += pruned.records
        unused: list[Sequence[int]] = []
        if records:
            # ahead of the transaction that writes: it may read all scores
            with self._database.reading() as connection:
                unused = placement.unused(connection)
        with self._database.writing() as connection:
            placement.tidy(connection, unused)
            given_scores.forget_deleted(connection, now_ns)
            judges.prune(connection, now_ns)
            if traces:
                stored_rows.forget_deleted(connection)
            if bounds.max_age is not None:
                annotation.prune(connection, now_ns - bounds.max_age)
        return traces

    def close(self) -> None:
        """Close all connections. Calling it again does nothing."""
        self._database.close()

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes

    def _take_stock(self, connection: Connection) -> None:
        """Count what is there; sequence numbers never fall, whatever became of the file."""
        exported = _highest(connection, marks.c.number, _IS_EXPORTED)
        last_seq = max(_highest(connection, stored_scores.c.number), exported)
        read_row, read_seq = last_read(connection)
        self._last_seq = max(self._last_seq, last_seq, read_seq)
        evaluated = _highest(connection, marks.c.number, marks.c.kind == "evaluated")
        last_row = max(evaluated, _highest(connection, agent_traces.c.row))
        self._last_row = max(self._last_row, last_row, read_row)
        self._last_answer = max(self._last_answer, _highest(connection, schema.judge_answers.c.row))
        self._size_bytes = stored_bytes(connection)

    def _take_numbers(self, connection: Connection) -> None:
        """Go on with the numbers that follow those of all servers."""
        highest = (stored_scores.c.number, agent_traces.c.row, schema.judge_answers.c.row)
        found = connection.execute(
            select(*(select(func.max(x)).scalar_subquery() for x in highest))
        )
        seq, row, answer = (x or 0 for x in found.one())
        self._last_seq = max(self._last_seq, seq)
        self._last_row = max(self._last_row, row)
        self._last_answer = max(self._last_answer, answer)

    def _measure(self) -> None:
        """Count the bytes that other servers have written and deleted."""
        if self.is_shared:
            with self._database.reading() as connection:
                self._size_bytes = stored_bytes(connection)

    def _prune_step(self, before_ns: int | None) -> Pruned:
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                pruned = prune_step(connection, before_ns)
            self._size_bytes -= pruned.size_bytes
        return pruned


def _refuse_outdated(
    connection: Connection, traces: Sequence[StoredTrace], scored: Sequence[Evaluation]
) -> None:
    of_sessions = [x for x in scored if x.scope == "session" and x.run is None]
    newest = lookup.newest_of_sessions(connection, map(stored_rows.subject_of, of_sessions))
    for score in of_sessions:
        revision, uid = newest.get((stored_rows.subject_of(score), score.metric), (0, ""))
        if score.revision <= revision and score.uid != uid:
            raise ConflictError(f"{score.metric} of {score.subject_id} was evaluated meanwhile")
    known = stored_rows.known(connection, [x.trace.id for x in traces if x.revision != IMPORTED])
    for stored in traces:
        revision, digest = known.get(stored.trace.id, (IMPORTED, ""))
        is_outdated = (stored.revision, stored.digest) != (revision, digest)
        if IMPORTED < stored.revision <= revision and is_outdated:
            raise ConflictError(f"revision {stored.revision} of {stored.trace.id} is there already")


def _subjects(
    connection: Connection, trace_id: str | None, session_id: str | None, tenant: str | None
) -> tuple[list[str], list[str]]:
    """The ids of the agent traces, and the keys of the sessions, that ids as users give them stand
    for.
    """
    traces = [] if trace_id is None else lookup.turns(connection, trace_id, tenant)
    sessions = (
        []
        if session_id is None
        else lookup.session_keys(connection, stored_rows.key(session_id), tenant)
    )
    return traces, sessions


def _highest(connection: Connection, column: Column[int], *wanted: ColumnElement[bool]) -> int:
    query = select(func.coalesce(func.max(column), 0)).where(*wanted)
    return connection.execute(query).scalar_one()
