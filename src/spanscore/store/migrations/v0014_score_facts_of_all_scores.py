"""The facts of all scores that are there, read from their records."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

revision = "0014"
down_revision = "0013"

_TENANT = "spanscore.header.:tenant"
_BATCH = 500
_MAX_TOOLS = 32
_MAX_CHARS = 256
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError)

_facts = sa.table(
    "score_facts",
    *map(sa.column, ("procedure", "evaluated_ns", "number", "context", "cluster", "subject")),
    *map(sa.column, ("value", "label", "passing", "series")),
)
_procedures = sa.table(
    "score_procedures",
    *map(
        sa.column,
        ("id", "tenant", "scope", "metric", "source", "run", "evaluator_kind", "evaluator"),
    ),
    *map(
        sa.column,
        ("evaluator_version", "judge_model", "prompt_hash", "embedding", "threshold", "rule"),
    ),
    *map(sa.column, ("low", "high", "sampling", "status", "cause")),
)
_contexts = sa.table(
    "score_contexts",
    *map(sa.column, ("id", "tenant", "service", "agent", "environment", "version", "model")),
)
_tools = sa.table("context_tools", sa.column("context"), sa.column("tool"))

_Row = tuple[Any, ...]

_OWN = sa.text(
    "SELECT seq, record FROM evaluations AS own WHERE seq > :after AND NOT EXISTS (SELECT 1 FROM"
    " evaluations AS newer WHERE newer.subject_id = own.subject_id AND newer.scope = own.scope AND"
    " newer.metric = own.metric AND newer.run = own.run AND newer.seq > own.seq) ORDER BY seq LIMIT"
    " :batch"
)
_GIVEN = sa.text(
    "SELECT row, record FROM external_scores WHERE row > :after ORDER BY row LIMIT :batch"
)
_GIVEN_TO_TRACE = sa.text(
    "SELECT row, record FROM external_scores WHERE trace_id = :id AND metric = :metric"
)
_GIVEN_TO_SESSION = sa.text(
    "SELECT row, record FROM external_scores WHERE session_key = :id AND metric = :metric"
)
_TRACE = sa.text("SELECT id, record FROM agent_traces WHERE id = :id")
_GIVEN_TO_RESPONSE = sa.text(
    "SELECT external_scores.row, record FROM external_scores JOIN response_scores ON"
    " response_scores.row = external_scores.row WHERE response_id = :id AND metric = :metric AND"
    " trace_id IS NULL"
)
_TURN = sa.text(
    "SELECT id, session_id FROM agent_traces JOIN otel_traces ON agent_trace_id = id"
    " WHERE trace_id = :id AND otel_traces.tenant = :tenant ORDER BY started_ns, id LIMIT 1"
)
_ANSWERING = sa.text(
    "SELECT id, session_id FROM agent_traces JOIN model_responses ON agent_trace_id = id"
    " WHERE response_id = :id AND model_responses.tenant = :tenant ORDER BY started_ns, id LIMIT 1"
)
_CONTEXT = sa.text(
    "SELECT context FROM score_facts JOIN evaluations ON seq = number"
    " WHERE subject_id = :id AND scope = 'trace' ORDER BY seq DESC LIMIT 1"
)


def fill(connection: Connection) -> bool:
    """Write the facts of some hundred scores: those that were measured, then those that others
    gave.
    """
    highest, lowest = connection.execute(
        sa.text("SELECT max(number), min(number) FROM score_facts")
    ).one()
    for rows in _batches(connection, _OWN, max(highest or 0, 0)):
        if _write(connection, list(_measured(connection, rows))):
            return True
    for rows in _batches(connection, _GIVEN, max(-(lowest or 0), 0)):
        if _write(connection, list(_given(connection, rows))):
            return True
    return False


def upgrade() -> None:
    """Nothing is left to do."""


def _batches(connection: Connection, query: sa.TextClause, after: int) -> Iterator[Sequence[Any]]:
    while rows := connection.execute(query, {"after": after, "batch": _BATCH}).all():
        yield rows
        after = rows[-1][0]


def _measured(
    connection: Connection, rows: Sequence[Any]
) -> Iterator[tuple[_Row, _Row, _Row, tuple[str, ...]]]:
    of_traces: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    for number, score in _decoded(rows):
        try:
            subject, is_trace = score["subject_id"], score["scope"] == "trace"
            if is_trace and subject not in of_traces:
                of_traces[subject] = _of_trace(_trace(connection, subject))
            model, tools = of_traces[subject] if is_trace else _of_trace(None)
            context = _context(score, model, tools)
            procedure = _procedure(score)
            yield (
                _fact(number, score, procedure, (context[0], _cluster(score)), None),
                procedure,
                context,
                tools,
            )
        except _DAMAGED:
            continue


def _given(
    connection: Connection, rows: Sequence[Any]
) -> Iterator[tuple[_Row, _Row, _Row, tuple[str, ...]]]:
    for row, score in _decoded(rows):
        try:
            if _last_of_series(connection, score) != row:
                continue
            context, procedure = _context(score, None, ()), _procedure(score)
            placed = _turn(connection, score) or (context[0], _cluster(score))
            yield _fact(-row, score, procedure, placed, _series(score)), procedure, context, ()
        except _DAMAGED:
            continue


def _write(connection: Connection, found: list[tuple[_Row, _Row, _Row, tuple[str, ...]]]) -> bool:
    if not found:
        return False
    tools = {(context[0], tool) for _, _, context, names in found for tool in names}
    _put(connection, _procedures, {x[0]: x for _, x, _, _ in found})
    _put(connection, _contexts, {x[0]: x for _, _, x, _ in found})
    if tools:
        of_these = sa.select(_tools).where(_tools.c.context.in_(sorted({x for x, _ in tools})))
        there = {tuple(x) for x in connection.execute(of_these).all()}
        new = [dict(zip(_tools.c.keys(), x, strict=True)) for x in sorted(tools - there)]
        if new:
            connection.execute(sa.insert(_tools), new)
    connection.execute(
        sa.insert(_facts),
        [dict(zip(_facts.c.keys(), fact, strict=True)) for fact, _, _, _ in found],
    )
    return True


def _put(connection: Connection, table: sa.TableClause, rows: dict[int, _Row]) -> None:
    there = set(
        connection.execute(sa.select(table.c.id).where(table.c.id.in_(list(rows)))).scalars()
    )
    new = [dict(zip(table.c.keys(), x, strict=True)) for id_, x in rows.items() if id_ not in there]
    if new:
        connection.execute(sa.insert(table), new)


def _decoded(rows: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for number, record in rows:
        try:
            yield number, json.loads(record)
        except ValueError:
            continue


def _fact(
    number: int, score: Any, procedure: _Row, placed: tuple[int, int], series: str | None
) -> _Row:
    label, passing = _verdict(score)
    return (
        procedure[0],
        score["evaluated_at_ns"],
        number,
        *placed,
        _hash(_tenant(score), score["scope"], _subject(score)),
        score["outcome"].get("value"),
        _text(label),
        passing,
        series,
    )


def _procedure(score: Any) -> _Row:
    by, scale, outcome = score["evaluator"], score["scale"] or (None, None), score["outcome"]
    low, high = (None if x is None else float(x) for x in scale)
    status = "scored" if "value" in outcome else "failed" if "type" in outcome else "skipped"
    cause = outcome.get("type") if status == "failed" else outcome.get("cause", "other")
    row = (
        _tenant(score),
        score["scope"],
        _text(score["metric"]),
        _text(by.get("source")),
        score.get("run") or "",
        by.get("kind"),
        *(_text(by.get(name)) for name in ("name", "version", "model", "prompt_hash", "embedding")),
        None if score["threshold"] is None else float(score["threshold"]),
        _text(score.get("rule")),
        low,
        high,
        float(score.get("sampling", 1.0)),
        status,
        None if status == "scored" else _text(cause),
    )
    return _hash(*row), *row


def _context(score: Any, model: str | None, tools: tuple[str, ...]) -> _Row:
    resource = score["target"]["resource"]
    environments = (
        resource.get(x) for x in ("deployment.environment.name", "deployment.environment")
    )
    environment = next((_attribute(x) for x in environments if x not in (None, "")), None)
    version = resource.get("service.version")
    row = (
        _tenant(score),
        _text(score.get("service_name")),
        _text(score.get("agent_name")),
        _text(environment),
        None if version in (None, "") else _text(_attribute(version)),
        model,
    )
    return _hash(*row, tools), *row


def _trace(connection: Connection, id_: str) -> Any:
    """The record of an agent trace, which may be of megabytes: one is in memory at a time."""
    return next(
        (trace for _, trace in _decoded(connection.execute(_TRACE, {"id": id_}).all())), None
    )


def _of_trace(trace: Any) -> tuple[str | None, tuple[str, ...]]:
    """The first model and the tools of an agent trace."""
    if trace is None:
        return None, ()
    model = next((x["model"] for x in trace.get("model_calls") or () if x["model"]), None)
    tools = sorted({_text(x["name"]) for x in trace.get("tool_calls") or ()} - {""})
    return _text(model), tuple(tools[:_MAX_TOOLS])


def _turn(connection: Connection, score: Any) -> tuple[int, int] | None:
    """The context and the cluster of the agent trace that a score was given to; None: none is
    stored.
    """
    given_to, is_trace = _given_to(score)
    if score["scope"] != "trace":
        return None
    asked = {"id": given_to, "tenant": _tenant(score)}
    turn = connection.execute(_TURN if is_trace else _ANSWERING, asked).first()
    if turn is None:
        return None
    scope, id_ = ("trace", turn.id) if turn.session_id is None else ("session", turn.session_id)
    context = connection.execute(_CONTEXT, {"id": turn.id}).scalar()
    return _context(score, None, ())[0] if context is None else context, _hash(
        _tenant(score), scope, id_
    )


def _given_to(score: Any) -> tuple[str, bool]:
    """The OTel trace, or where a score names none the model's response, and which of them it is."""
    response = score["target"].get("response_id")
    if score["target"]["trace_id"] or response is None:
        return score["target"]["trace_id"], True
    return _key(response), False


def _last_of_series(connection: Connection, score: Any) -> int:
    """The row of the score that its giver gave last to the same span, of the same metric."""
    given_to, is_trace = _given_to(score)
    query = _GIVEN_TO_TRACE if is_trace else _GIVEN_TO_RESPONSE
    if score["scope"] == "session":
        query, given_to = _GIVEN_TO_SESSION, _subject(score)
    rows = connection.execute(query, {"id": given_to, "metric": score["metric"]}).all()
    same = [
        (x["evaluated_at_ns"], row) for row, x in _decoded(rows) if _identity(x) == _identity(score)
    ]
    return int(max(same)[1])


def _identity(score: Any) -> tuple[str, ...]:
    return score["scope"], _tenant(score), _subject(score), _series(score)


def _series(score: Any) -> str:
    by = score["evaluator"]
    response = score["target"].get("response_id")
    answer = () if response is None else (response,)
    facts = "\n".join(
        (
            by.get("source") or "",
            by["name"],
            by.get("author") or "",
            score["target"]["span_id"],
            *answer,
        )
    )
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _tenant(score: Any) -> str:
    return str(score["target"]["resource"].get(_TENANT, ""))


def _verdict(score: Any) -> tuple[str | None, int | None]:
    """The label, and 1 for a pass, 0 for a fail, None where that is not known."""
    outcome, threshold = score["outcome"], score["threshold"]
    label, value = outcome.get("label"), outcome.get("value")
    if "passed" in outcome:
        passed = label == "pass" if label in {"pass", "fail"} else outcome["passed"]
        return label, None if passed is None else int(passed)
    reaches = None if value is None or threshold is None else value >= threshold - 1e-9
    if label is None and reaches is not None:
        label = "pass" if reaches else "fail"
    if label in {"pass", "fail"}:
        return label, int(label == "pass")
    return label, None if reaches is None else int(reaches)


def _cluster(score: Any) -> int:
    session = score.get("session_key") or score["session_id"]
    if session is not None:
        return _hash(_tenant(score), "session", _key(session))
    return _hash(_tenant(score), score["scope"], _subject(score))


def _subject(score: Any) -> str:
    return _key(score["subject_id"]) if score["scope"] == "session" else str(score["subject_id"])


def _key(session: str) -> str:
    if len(session) <= _MAX_CHARS and not _NO_TEXT.search(session):
        return session
    return "sha256:" + hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()


def _attribute(value: Any) -> str:
    return str(
        base64.b64decode(value["$bytes"])
        if isinstance(value, dict) and value.keys() == {"$bytes"}
        else value
    )


def _text(value: Any) -> Any:
    return None if value is None else _NO_TEXT.sub("", value)[:_MAX_CHARS]


def _hash(*parts: Any) -> int:
    digest = hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
