"""Scores that the API creates, changes and deletes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import delete, func, select, update
from sqlalchemy.engine import Connection

from spanscore.errors import ExistsError, NotFoundError, StateError
from spanscore.model.external import Turn, spans_of
from spanscore.model.score import Evaluation
from spanscore.model.span import of_tenant, with_headers
from spanscore.model.trace import AgentTrace, Target, scope_of, session_key
from spanscore.store import annotation, kept_scores, lookup, placement, records
from spanscore.store.database import Database
from spanscore.store.schema import GIVEN, agent_traces, marks, otel_traces, scores as stored
from spanscore.store.stored_rows import chunks, has_uid, is_of, key, matching, put_rows, read_scores

SubjectState: TypeAlias = Literal["stored", "not_stored", "ambiguous"]
"""Whether the trace or session that a score names is there: `ambiguous` where its id stands for
several.
"""

_MANY = 2
_RESENT_FOR_NS = 30 * 24 * 3600 * 10**9
"""For how long a score that was deleted may be received again: senders and the journal keep
less.
"""


class Draft(NamedTuple):
    """A score to be created: its subject as whoever gave it names it, and its `digest` of what was
    asked for.

    `evaluated_at_ns` is 0 where it is given now. `where` is the request id's field, for errors.
    """

    score: Evaluation
    where: str


@dataclass(frozen=True, slots=True)
class Given:
    """A score that others gave, as it is stored, and whether what it is of is stored too; `is_new`
    was created now.
    """

    score: Evaluation
    subject: SubjectState
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Subjects:
    """What drafts may be of: turns by each of their ids, and the newest trace of each session by
    its key.

    `whole` gives the agent trace of a turn that one of them is of; None where it is damaged. Others
    are not read: each may be of megabytes.
    """

    turns: Mapping[str, Sequence[Turn]]
    sessions: Mapping[str, Sequence[AgentTrace]]
    whole: Callable[[str], AgentTrace | None]

    @classmethod
    def of(cls, connection: Connection, tenant: str, scores: Sequence[Evaluation]) -> "Subjects":
        """Those that these scores name, as far as a tenant has them."""
        of_traces = [x for x in scores if x.scope == "trace"]
        ids = sorted({y for x in of_traces for y in (x.target.trace_id, x.subject_id)})
        named = sorted({x.session_id or "" for x in scores if x.scope == "session"})
        loaded: dict[str, AgentTrace | None] = {}

        def load(id_: str) -> AgentTrace | None:
            if id_ not in loaded:
                loaded[id_] = next(placement.stored(connection, [id_]), None)
            return loaded[id_]

        sessions = {x: _sessions(connection, tenant, x) for x in named}
        found = cls(_turns(connection, tenant, ids), sessions, load)
        for score in of_traces:
            found.resolved(score, tenant)
        return replace(found, whole=loaded.get)

    def resolved(self, score: Evaluation, tenant: str) -> tuple[Evaluation, SubjectState]:
        """The score with all that is known of what it is of."""
        return (
            self._session(score, tenant) if score.scope == "session" else self._trace(score, tenant)
        )

    def _trace(self, score: Evaluation, tenant: str) -> tuple[Evaluation, SubjectState]:
        target = score.target
        turns = self.turns.get(target.trace_id, ())
        named = next((x for x in turns if x.id == target.trace_id), None)
        whole = None if named is None else self.whole(named.id)
        if named is not None and whole is not None:  # by its own id, not by that of its OTel trace
            target = replace(target, trace_id=whole.target.trace_id)
            turns = self.turns.get(target.trace_id, (named,))
            if len(turns) > 1 and not target.span_id:
                target = replace(target, span_id=_own_span(whole, turns))
        joined = turns if len(turns) == 1 else [x for x in turns if x.has_span(target.span_id)]
        turn = self.whole(joined[0].id) if len(joined) == 1 else None
        if turn is None:
            resource = with_headers({}, of_tenant(tenant))
            state: SubjectState = "ambiguous" if len(turns) > 1 else "not_stored"
            return _of_target(score, replace(target, resource=resource)), state
        found = replace(
            _of_target(score, replace(target, resource=turn.target.resource)),
            session_id=turn.session_id,
            session_key=turn.session_key,
            agent_name=turn.agent_name,
            service_name=turn.service_name,
        )
        return found, "stored"

    def _session(self, score: Evaluation, tenant: str) -> tuple[Evaluation, SubjectState]:
        session_id = score.session_id or ""
        found = self.sessions[session_id]
        if len(found) == 1:
            newest = found[0]
            stored = replace(
                score,
                subject_id=newest.session_key or session_id,
                session_id=newest.session_id,
                session_key=newest.session_key,
                target=Target("", "", 0, 0, newest.target.resource),
                agent_name=newest.agent_name,
                service_name=newest.service_name,
            )
            return stored, "stored"
        resource = with_headers({}, of_tenant(tenant))
        name = session_key(session_id, scope_of(resource, ()))
        unknown = replace(
            score, subject_id=name, session_key=name, target=Target("", "", 0, 0, resource)
        )
        return unknown, "ambiguous" if found else "not_stored"


def state_of(connection: Connection, tenant: str, score: Evaluation) -> SubjectState:
    """Whether what a stored score is of is stored too."""
    if score.scope == "session":
        return Subjects.of(connection, tenant, [score]).resolved(score, tenant)[1]
    turns = placement.turns(connection, [score], tenant)
    if turns.join([score]).of_no_turn:
        return "ambiguous"
    return "not_stored" if turns.turn_of(score) is None else "stored"


def forget_deleted(connection: Connection, now_ns: int) -> None:
    """Forget which received scores were deleted, once nobody sends them again."""
    connection.execute(
        delete(marks).where(marks.c.kind == "deleted", marks.c.number < now_ns - _RESENT_FOR_NS)
    )


def _row(connection: Connection, tenant: str, uid: str) -> Any:
    table = stored.c
    query = select(table.number, table.size_bytes, table.record).where(
        *has_uid(connection, [uid]), *is_of(stored, tenant)
    )
    found = connection.execute(query.order_by(table.number).with_for_update()).first()
    if found is not None and found.number < 0:
        return found
    if found is not None:
        raise StateError(
            f"scores/{uid} was measured by spanscore, and only scores that others gave can be"
            " changed or deleted: create one of your own beside it, or have the trace evaluated"
            " again"
        )
    raise NotFoundError(f"there is no score {uid!r}: it was deleted, or is past its retention")


def _there(connection: Connection, tenant: str, uids: Sequence[str]) -> dict[str, Evaluation]:
    found: dict[str, Evaluation] = {}
    for some in chunks(sorted(set(uids))):
        wanted = GIVEN, *has_uid(connection, some), *is_of(stored, tenant)
        rows = connection.execute(select(stored.c.record).where(*wanted))
        found.update((x.uid, x) for _, x in read_scores(rows))
    return found


def _turns(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, list[Turn]]:
    """The turns with these ids, and all of their OTel traces and of these, by both kinds of
    ids.
    """
    table, own = otel_traces.c, is_of(otel_traces, tenant)
    named = select(table.trace_id).where(*own)
    otel_ids = {x for (x,) in matching(connection, named, table.agent_trace_id, ids)}
    wanted = select(table.agent_trace_id).where(*own)
    of_traces = matching(connection, wanted, table.trace_id, otel_ids.union(ids))
    found: dict[str, list[Turn]] = {}
    for turn, _ in placement.read(connection, (x for (x,) in of_traces)):
        for name in (turn.id, *turn.trace_ids):
            found.setdefault(name, []).append(turn)
    return found


def _sessions(connection: Connection, tenant: str, session_id: str) -> list[AgentTrace]:
    """The newest agent trace of each session that has this id or key, two of them at most."""
    table, found = agent_traces.c, []
    for name in lookup.sessions_of(connection, key(session_id), tenant):
        of_session = table.session_id == name, *is_of(agent_traces, tenant)
        newest = select(func.max(table.row)).where(*of_session).scalar_subquery()
        for record in connection.execute(select(table.record).where(table.row == newest)).scalars():
            found += records.undamaged(records.decode_trace, record)
        if len(found) == _MANY:
            break
    return found


def _own_span(turn: AgentTrace, turns: Sequence[Turn]) -> str:
    """A span of one turn that no other of its OTel trace has; "" where all are shared."""
    shared = {x for other in turns if other.id != turn.id for x in other.span_ids.split(" ")}
    candidates = (turn.opening_span_id, turn.target.span_id, *sorted(spans_of(turn)))
    return next((x for x in candidates if x and x not in shared), "")


def _of_target(score: Evaluation, target: Target) -> Evaluation:
    return replace(score, subject_id=target.trace_id, target=target)


class GivenScores:
    """Every method may be called from any thread, and raises as those of `Store`."""

    def __init__(
        self, database: Database, grew: Callable[[int], None], clock_ns: Callable[[], int]
    ) -> None:
        """`grew` is called with the bytes by which the store has grown."""
        self._database = database
        self._grew = grew
        self._clock_ns = clock_ns
        self.created: Callable[[Sequence[Evaluation]], None] = lambda _scores: None
        """Called with the scores that are new, once they are committed."""

    def create(self, tenant: str, drafts: Sequence[Draft]) -> list[Given]:
        """Keep scores, all or none; those that were created by the same requests before are
        returned as they are, in order.

        Raises ExistsError where something else was created under a request id.
        """
        # decoding their traces keeps no writer waiting
        with self._database.reading() as connection:
            subjects = Subjects.of(connection, tenant, [x.score for x in drafts])
        new: dict[str, Evaluation] = {}
        found: list[Given] = []
        with self._database.one_at_a_time:
            now_ns = self._clock_ns()
            with self._database.writing() as connection:
                there = _there(connection, tenant, [x.score.uid for x in drafts])
                for score, where in drafts:
                    same = there.get(score.uid) or new.get(score.uid)
                    if same is not None and same.digest != score.digest:
                        raise ExistsError(
                            f"{where}: another score was created with this one,"
                            f" scores/{score.uid}; use one id for one request"
                        )
                    if same is not None:
                        found.append(Given(same, subjects.resolved(same, tenant)[1]))
                        continue
                    known, state = subjects.resolved(score, tenant)
                    known = replace(known, evaluated_at_ns=known.evaluated_at_ns or now_ns)
                    new[score.uid] = known
                    found.append(Given(known, state, is_new=True))
                _, added_bytes = kept_scores.put_given(connection, list(new.values()), now_ns)
            self._grew(added_bytes)
        self.created(list(new.values()))
        return found

    def change(self, tenant: str, uid: str, changed: Callable[[Evaluation], Evaluation]) -> Given:
        """Keep what `changed` makes of a score as its next revision, and raise what it raises.

        Raises NotFoundError, StateError where it was measured.
        """
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                row = _row(connection, tenant, uid)
                score = records.decode_evaluation(row.record)
                after = replace(changed(score), revision=score.revision + 1)
                record = records.encode(after)
                values = {
                    "revision": after.revision,
                    "evaluated_ns": after.evaluated_at_ns,
                    "size_bytes": records.size_bytes(record),
                    "record": record,
                }
                connection.execute(
                    update(stored).where(stored.c.number == row.number).values(values)
                )
                kept_scores.renew_given(connection, score)
                found = Given(after, state_of(connection, tenant, after))
            self._grew(records.size_bytes(record) - row.size_bytes)
        return found

    def remove(self, tenant: str, uid: str, checked: Callable[[Evaluation], object]) -> None:
        """Delete a score, unless `checked` raises. Raises NotFoundError, StateError.

        One that was received, and not created by the API, does not come back when it is received
        again. One whose record is damaged is deleted unchecked.
        """
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                row = _row(connection, tenant, uid)
                score = next(iter(records.undamaged(records.decode_evaluation, row.record)), None)
                if score is not None:
                    checked(score)
                kept_scores.remove(connection, [row.number])
                if score is not None:
                    kept_scores.renew_given(connection, score)
                annotation.forget_label(connection, uid)
                if score is None or not score.digest:
                    deleted = ("deleted", uid, tenant, self._clock_ns(), None)
                    put_rows(connection, marks, [deleted])
            self._grew(-row.size_bytes)

    def subject_state(self, tenant: str, score: Evaluation) -> SubjectState:
        """Whether what a score is of is stored."""
        with self._database.reading() as connection:
            return state_of(connection, tenant, score)
