"""A table of what others' scores are joined to turns by; scores that an older version placed
wrongly are placed anew.

Older versions counted a score that others gave with the first turn of its OTel trace, and with none
where its turn came later.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import op
from sqlalchemy.engine import Connection

from spanscore.store.migrations.v0014_score_facts_of_all_scores import (
    _DAMAGED,
    _cluster,
    _context,
    _contexts,
    _decoded,
    _hash,
    _key,
    _of_trace,
    _put,
    _subject,
    _tenant,
    _tools,
)

revision = "0017"
down_revision = "0016"

_BATCH = 500
_MAX_SHARED = 20
_HEADER, _TENANT_HEADER = "spanscore.header.", ":tenant"

_TRACES = sa.text(
    "SELECT DISTINCT trace_id FROM external_scores WHERE trace_id > :after AND scope = 'trace'"
    " ORDER BY trace_id LIMIT :batch"
)
_RESPONSES = sa.text(
    "SELECT DISTINCT response_id FROM response_scores JOIN external_scores ON external_scores.row ="
    " response_scores.row WHERE trace_id IS NULL AND response_id > :after ORDER BY response_id"
    " LIMIT :batch"
)
_OF_TRACE = sa.text(
    "SELECT external_scores.row, record, context, cluster, subject FROM external_scores"
    " JOIN score_facts ON number = -external_scores.row WHERE scope = 'trace' AND trace_id = :id"
    " AND external_scores.row > :after ORDER BY external_scores.row LIMIT :batch"
)
_OF_RESPONSE = sa.text(
    "SELECT external_scores.row, record, context, cluster, subject FROM external_scores JOIN"
    " response_scores ON response_scores.row = external_scores.row JOIN score_facts ON number ="
    " -external_scores.row WHERE scope = 'trace' AND trace_id IS NULL AND response_id = :id AND"
    " external_scores.row > :after ORDER BY external_scores.row LIMIT :batch"
)
_TURNS = sa.text(
    "SELECT agent_trace_id FROM otel_traces WHERE trace_id = :id ORDER BY agent_trace_id"
)
_ANSWERED = sa.text(
    "SELECT agent_trace_id FROM model_responses WHERE response_id = :id AND tenant = :tenant"
    " ORDER BY agent_trace_id LIMIT :most"
)
_TRACE = sa.text("SELECT id, record FROM agent_traces WHERE id = :id")
_MOVE = sa.text(
    "UPDATE score_facts SET context = :context, cluster = :cluster, subject = :subject WHERE number"
    " = :number"
)

_Owner = tuple[tuple[str, str], ...]


class _Turn(NamedTuple):
    id: str
    trace_ids: frozenset[str]
    span_ids: frozenset[str]
    responses: frozenset[str]
    owner: _Owner
    tenant: str
    session: str | None
    context: tuple[Any, ...]
    tools: tuple[str, ...]


class _Members:
    """The turns of one OTel trace, by what a score of them names: a trace may have thousands of
    turns, and as many scores.
    """

    def __init__(self, turns: Iterable[_Turn] = ()) -> None:
        self.by_id = {turn.id: turn for turn in turns}
        self._by_owner: dict[_Owner, list[_Turn]] = {}
        self._by_span: dict[str, list[_Turn]] = {}
        self._by_response: dict[str, list[_Turn]] = {}
        for turn in self.by_id.values():
            self._by_owner.setdefault(turn.owner, []).append(turn)
            for span_id in turn.span_ids:
                self._by_span.setdefault(span_id, []).append(turn)
            for response_id in turn.responses:
                self._by_response.setdefault(response_id, []).append(turn)

    def with_span(self, span_id: str) -> Sequence[_Turn]:
        """Those that have a span."""
        return self._by_span.get(span_id, ())

    def with_response(self, response_id: str | None) -> Sequence[_Turn]:
        """Those in which a model gave a response."""
        return self._by_response.get(response_id or "", ())

    def first_of_owners(self) -> Iterator[_Turn]:
        """The first two turns of each owner: enough to know whether a score's owner has only
        one.
        """
        for turns in self._by_owner.values():
            yield from turns[:2]


def upgrade() -> None:
    """Add the table, empty, and move the facts of scores to the turns that these are of."""
    op.create_table(
        "scored_turns",
        sa.Column("agent_trace_id", sa.String(32), primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    for trace_id in _ids(connection, _TRACES):
        ids = connection.execute(_TURNS, {"id": trace_id}).scalars().all()
        members = _Members(_turns(connection, ids))
        for rows in _pages(connection, _OF_TRACE, trace_id):
            _place(connection, rows, members)
    for response_id in _ids(connection, _RESPONSES):
        for rows in _pages(connection, _OF_RESPONSE, response_id):
            _place(connection, rows, _Members())


def _ids(connection: Connection, query: sa.TextClause) -> Iterator[str]:
    after = ""
    while found := connection.execute(query, {"after": after, "batch": _BATCH}).scalars().all():
        yield from found
        after = found[-1]


def _pages(connection: Connection, query: sa.TextClause, id_: str) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := connection.execute(query, {"id": id_, "after": after, "batch": _BATCH}).all():
        yield rows
        after = rows[-1].row


def _turns(connection: Connection, ids: Iterable[str]) -> Iterator[_Turn]:
    """What is needed of these agent traces, whose records may be of megabytes: one is in memory at
    a time.
    """
    for id_ in ids:
        for _, trace in _decoded(connection.execute(_TRACE, {"id": id_}).all()):
            try:
                yield _turn(id_, trace)
            except _DAMAGED:
                continue


def _turn(id_: str, trace: Any) -> _Turn:
    model, tools = _of_trace(trace)
    target, calls = trace["target"], trace.get("model_calls") or ()
    parts = (*calls, *(trace.get("tool_calls") or ()), *(trace.get("retrieved") or ()))
    span_ids = {
        target["span_id"],
        trace["root_span_id"],
        trace["opening_span_id"],
        *(x["span_id"] for x in parts),
    }
    responses = {x.get("response_id") for x in calls}
    return _Turn(
        id_,
        frozenset(trace["trace_ids"]),
        frozenset(x for x in span_ids if x),
        frozenset(x for x in responses if x and "\n" not in x),
        _owner(target["resource"]),
        _tenant(trace),
        trace.get("session_key") or trace.get("session_id"),
        _context(trace, model, tools),
        tools,
    )


def _place(connection: Connection, rows: Sequence[Any], members: _Members) -> None:
    moved: list[dict[str, int]] = []
    contexts: dict[int, tuple[Any, ...]] = {}
    tools: set[tuple[int, str]] = set()
    answered: dict[Any, Sequence[_Turn]] = {}
    for row in rows:
        try:
            score = json.loads(row.record)
            asked = _tenant(score), score["target"].get("response_id")
            if asked not in answered:
                answered[asked] = _answered(connection, *asked, members)
            place, context, names = _place_of(score, _turn_of(score, members, answered[asked]))
        except _DAMAGED:
            continue
        if place != (row.context, row.cluster, row.subject):
            moved.append(
                dict(
                    zip(
                        ("context", "cluster", "subject", "number"), (*place, -row.row), strict=True
                    )
                )
            )
            contexts[place[0]] = context
            tools.update((place[0], name) for name in names)
    if moved:
        _put(connection, _contexts, contexts)
        _put_tools(connection, tools)
        connection.execute(_MOVE, moved)


def _answered(
    connection: Connection, tenant: str, response_id: str | None, members: _Members
) -> Sequence[_Turn]:
    """The turns in which a model gave a response; none where too many have it.

    Those that are `members` need not be read.
    """
    if not response_id:
        return ()
    asked = {"id": _key(response_id), "tenant": tenant, "most": _MAX_SHARED + 1}
    ids = connection.execute(_ANSWERED, asked).scalars().all()
    if len(ids) > _MAX_SHARED:
        return ()
    others = _turns(connection, [x for x in ids if x not in members.by_id])
    return [*(members.by_id[x] for x in ids if x in members.by_id), *others]


def _turn_of(score: Any, members: _Members, answering: Sequence[_Turn]) -> _Turn | None:
    """The one turn that has the span; else the response; else the only turn of the trace."""
    target, owner = score["target"], _owner(score["target"]["resource"])

    def owned(turns: Iterable[_Turn]) -> list[_Turn]:
        return [x for x in turns if _is_owned(x, score, owner)]

    answered_here = owned(members.with_response(target.get("response_id")))
    answered = list({x.id: x for x in (*answered_here, *owned(answering))}.values())
    with_span = owned(members.with_span(target["span_id"]))
    rest = (answered_here, answered) if answered else (owned(members.first_of_owners()),)
    return next((found[0] for found in (with_span, *rest) if len(found) == 1), None)


def _is_owned(turn: _Turn, score: Any, owner: _Owner) -> bool:
    """Whether a score comes from where a turn came from; one that was created by the API has only
    its tenant.
    """
    of_tenant = ((_TENANT_HEADER, turn.tenant),) if turn.tenant else ()
    return turn.owner == owner or (bool(score.get("digest")) and of_tenant == owner)


def _owner(resource: Any) -> _Owner:
    headers = tuple(
        (name[len(_HEADER) :], str(x)) for name, x in resource.items() if name.startswith(_HEADER)
    )
    return tuple(x for x in headers if x[0] == _TENANT_HEADER) or headers


def _place_of(
    score: Any, turn: _Turn | None
) -> tuple[tuple[int, int, int], tuple[Any, ...], tuple[str, ...]]:
    """The context, the cluster and the subject of a score, with the row of the context, and the
    tools in it.
    """
    if turn is None:
        context = _context(score, None, ())
        subject = _hash(_tenant(score), score["scope"], _subject(score))
        return (context[0], _cluster(score), subject), context, ()
    subject = _hash(turn.tenant, "trace", turn.id)
    cluster = subject if turn.session is None else _hash(turn.tenant, "session", _key(turn.session))
    return (turn.context[0], cluster, subject), turn.context, turn.tools


def _put_tools(connection: Connection, tools: set[tuple[int, str]]) -> None:
    of_these = sa.select(_tools).where(_tools.c.context.in_(sorted({x for x, _ in tools})))
    new = tools - {tuple(x) for x in connection.execute(of_these).all()}
    if new:
        connection.execute(
            sa.insert(_tools), [dict(zip(_tools.c.keys(), x, strict=True)) for x in sorted(new)]
        )
