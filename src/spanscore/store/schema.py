"""The store's tables, and their version."""

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Subquery,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from spanscore.errors import ConfigError

VERSION = 1
"""The number of these tables. Each change of a table in a release raises it."""

tables = MetaData()

_CREATING = 1936748898  # PostgreSQL's advisory lock while tables are made
# SQLite's row ids are INTEGER, which has 64 bits there
_BIG = BigInteger().with_variant(Integer, "sqlite")


def _tenant() -> Column[str]:
    """Whose a row is; "" where there are no tenants."""
    return Column("tenant", String(128), nullable=False, server_default="")


def _index_of_tenants(table: Table, *columns: str) -> None:
    """Index the rows of tenants, each tenant's in the order of `columns`; a store without tenants
    writes none of it.

    `tenants.is_of` gives the conditions with which a query uses it.
    """
    has_tenant = table.c.tenant != ""
    named = (table.c[x] for x in ("tenant", *columns))
    name = f"{table.name}_by_tenant_{columns[0]}"
    Index(name, *named, sqlite_where=has_tenant)


marks = Table(
    "marks",
    tables,
    Column("kind", String(16), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("tenant", String(128), primary_key=True),
    Column("number", _BIG, nullable=False),
    Column("text", Text),
    sqlite_with_rowid=False,
)
"""What is kept under a name, and is a number or a text; by `kind`:

- `evaluated`: up to which row of `agent_traces` a session, by its key, was read for its last
  evaluation.
- `exported`: the number of the last score that an exporter is done with.
- `deleted`: when a score that was received was deleted (Unix ns), by its uid, so that it does not
  come back when it is sent again.
- `calibration`: a judge's errors as measured on human labels, and when (Unix ns), by its key.
  Retention leaves them: there is one for each judge that was labelled.
- `version`: of the tables, by which each spanscore knows whether it can use them; on PostgreSQL
  alone, as SQLite has it in the file's header.
- `secret`: a key that servers on this store share, in hex; each is drawn when it is first needed.
- `spent`: what a server has spent of `judge.budget`, as JSON, and when that hour or day began (Unix
  ns), by both and the server. `open_tokens` and `open_usd` are the part that is reserved for calls
  under way. `slot`: when a model with a configured rate may be called next by any server (Unix ns),
  by `stored_rows.key` of its name. Both on PostgreSQL alone.
"""

agent_traces = Table(
    "agent_traces",
    tables,
    # rises with every commit: the order of deletion
    Column("row", _BIG, primary_key=True, autoincrement=False),
    Column("id", String(32), nullable=False, unique=True),
    Column("revision", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("session_id", String(256)),
    Column("started_ns", _BIG, nullable=False),
    Column("stored_ns", _BIG, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    _tenant(),
    Column("latency_ns", _BIG, nullable=False),
    Column("tokens", _BIG),
    Column("tool_errors", Integer),
    Column("turn", Text),
    Column("record", Text, nullable=False),
)
"""Agent traces, each in its newest revision.

`tokens` is null where they are not recorded, `tool_errors` where the trace does not show whether
tools were called. `turn` is that by which others' scores are joined to it, without its texts: JSON,
written when it is first needed.
"""
Index(
    "agent_traces_by_session",
    agent_traces.c.session_id,
    sqlite_where=agent_traces.c.session_id.is_not(None),
)
Index("agent_traces_by_start", agent_traces.c.started_ns, agent_traces.c.row)
Index(
    "agent_traces_by_measure",
    *(agent_traces.c[x] for x in ("row", "tenant", "latency_ns", "tokens", "tool_errors")),
)
_index_of_tenants(agent_traces, "row")
_index_of_tenants(agent_traces, "started_ns", "row")
_index_of_tenants(agent_traces, "session_id", "row")

names = Table(
    "names",
    tables,
    Column("kind", String(8), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("id", String(256), primary_key=True, index=True),
    _tenant(),
    sqlite_with_rowid=False,
)
"""By what else than their ids agent traces and sessions are found."""


def _of_kind(kind: str, name: str, id_: str) -> Subquery:
    """The names of one kind, and what they name."""
    columns = names.c.name.label(name), names.c.id.label(id_), names.c.tenant
    return select(*columns).where(names.c.kind == literal_column(f"'{kind}'")).subquery(f"{kind}s")


otel_traces = _of_kind("trace", "trace_id", "agent_trace_id")
"""OTel trace ids of each agent trace.

An agent trace's id derives from them, so they never change.
"""

model_responses = _of_kind("response", "response_id", "agent_trace_id")
"""The ids of the responses that models gave in each agent trace, by which others name a model
call.
"""

session_keys = _of_kind("session", "session_id", "session_key")
"""The keys that sessions of one id have in different namespaces or tenants, where a key is not the
id itself.
"""

scores = Table(
    "scores",
    tables,
    Column("number", _BIG, primary_key=True, autoincrement=False),
    Column("uid", String(16), nullable=False),
    Column("scope", String(7), nullable=False),
    Column("metric", String(256), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("run", String(32), nullable=False),
    Column("evaluated_ns", _BIG, nullable=False),
    Column("stored_ns", _BIG, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("subject_id", String(256)),
    Column("trace_id", String(32)),
    Column("session_key", String(256)),
    Column("response_id", String(256)),
    Column("series", String(16)),
    Column("current", Integer, nullable=False),
    Column("procedure", _BIG, nullable=False),
    _tenant(),
    Column("happened_ns", _BIG, nullable=False),
    Column("context", _BIG, nullable=False),
    Column("cluster", _BIG, nullable=False),
    Column("subject", _BIG, nullable=False),
    Column("tags", _BIG),
    Column("value", Double),
    Column("label", String(256)),
    Column("passing", Integer),
    Column("record", Text, nullable=False),
)
"""Scores: those that spanscore measured, and those that others gave.

- `number`: of what was measured from 1 up, in the order of the outbox; of what others gave from -1
  down, in the order in which it came.
- `evaluated_ns`: when it was measured or given, Unix ns. `run`: the evaluation run that asked for
  it, "" for what was evaluated as it came.
- `subject_id`: the agent trace or session that was measured. Of what others gave instead
  `trace_id`, `session_key` and `response_id`: what it names, whether or not that is known yet, and
  `series`: a digest of what it says of what, and of who gave it.
- `current`: 1 where no later revision of the same metric and run, or no later one of its series,
  took its place; -1 where none did but the agent trace became part of another one; else 0. Figures
  are of what has 1.
- `procedure`, `context`: what it has in common with many others, see `score_procedures` and
  `score_contexts`. `tags`: those of the trace, see `score_tags`; null where it has none.
- `happened_ns`: when the turn that was scored began, the last one of a session, Unix ns; where that
  is not known, `evaluated_ns`.
- `cluster`: a hash of what is independent of the others, its session or a trace that belongs to
  none. `subject`: a hash of the trace or session that was scored.
- `value` (on the metric's own scale), `label`, `passing` (1, 0, or null where that is not known).
- `record`: all of it, as JSON.
"""
BLOCK_SCORES = 8192
BLOCK: ColumnElement[int] = scores.c.number.op("/", return_type=_BIG)(
    literal_column(str(BLOCK_SCORES))
)
Index("scores_by_uid", BLOCK, scores.c.uid)
"""By blocks of numbers, since uids are random: in one index of all of them each row of a commit
would change a page of its own. `stored_rows.has_uid` gives the conditions with which a query uses
it.
"""

Index("scores_by_subject", scores.c.subject_id, scores.c.metric)
Index("scores_by_run", scores.c.run, scores.c.number, sqlite_where=scores.c.run != "")
for _given in (scores.c.trace_id, scores.c.session_key, scores.c.response_id, scores.c.series):
    Index(f"scores_by_{_given.name}", _given, sqlite_where=_given.is_not(None))
Index(
    "scores_by_procedure",
    *(
        scores.c[x]
        for x in (
            *("procedure", "happened_ns", "number", "context", "cluster", "subject"),
            *("value", "label", "passing", "tags", "evaluated_ns"),
        )
    ),
    sqlite_where=scores.c.current == 1,
)
"""All that figures are made of, so that no record is read for them."""

_index_of_tenants(scores, "number")

MEASURED: ColumnElement[bool] = scores.c.number > literal_column("0")
GIVEN: ColumnElement[bool] = scores.c.number < literal_column("0")
"""What others gave."""

NEWEST: ColumnElement[bool] = scores.c.current != literal_column("0")
COUNTED: ColumnElement[bool] = scores.c.current == literal_column("1")
"""That figures are made of a score; written out, since only then a database uses its index."""

score_procedures = Table(
    "score_procedures",
    tables,
    Column("id", _BIG, primary_key=True, autoincrement=False),
    Column("tenant", String(128), nullable=False),
    Column("scope", String(7), nullable=False),
    Column("metric", String(256), nullable=False),
    Column("source", String(256)),
    Column("run", String(32), nullable=False),
    Column("evaluator_kind", String(8)),
    Column("evaluator", String(256), nullable=False),
    Column("evaluator_version", String(256), nullable=False),
    Column("judge_model", String(256)),
    Column("prompt_hash", String(256)),
    Column("embedding", String(256)),
    Column("threshold", Double),
    Column("rule", String(256)),
    Column("low", Double),
    Column("high", Double),
    Column("sampling", Double, nullable=False),
    Column("status", String(8), nullable=False),
    Column("cause", String(256)),
    Index("score_procedures_by_metric", "tenant", "metric"),
)
"""How scores were made, once for all that were made so; `id` is a hash of the other columns.

- `tenant`: whose they are; "" where there are no tenants.
- `source`: who gave them ("human", "programmatic", the evaluator's name); null for what spanscore
  measured.
- `run`: the evaluation run that measured them; "" for what was measured as traces passed, or given
  by others.
- `evaluator_kind` to `threshold`: the judge; a calibration holds for one of them. `rule`: of
  `evaluation.rules`.
- `low`, `high`: the scale of the values; null where that is not recorded.
- `sampling`: the chance with which a subject was drawn; a figure over a population weights by its
  inverse.
- `status` ("scored", "skipped", "failed"); `cause`: why a score is missing, the skip's cause or the
  error's type.
"""

score_contexts = Table(
    "score_contexts",
    tables,
    Column("id", _BIG, primary_key=True, autoincrement=False),
    Column("tenant", String(128), nullable=False),
    Column("service", String(256)),
    Column("agent", String(256)),
    Column("environment", String(256)),
    Column("version", String(256)),
    Column("model", String(256)),
    Column("outcome", String(9)),
    Column("tools", Text, nullable=False),
)
"""What was scored, once for all that has this in common; `id` is a hash of the other columns.

`service`, `environment` and `version` are of the evaluated agent's resource, `model` is the first
that a trace called, `outcome` how a turn ended. `tools` are those that it has called, as JSON: the
first 32 by name. Texts are cut at 256 characters, and null where that is not known.
"""

score_tags = Table(
    "score_tags",
    tables,
    Column("tenant", String(128), primary_key=True),
    Column("tags", _BIG, primary_key=True, autoincrement=False),
    Column("tag", String(256), primary_key=True),
    sqlite_with_rowid=False,
)
"""Which tags scored traces have together: a row for each tag, the first 32 by name; `tags` is a
hash of all of them.

Apart from the contexts, since some senders' tags are seldom twice the same.
"""

annotation_items = Table(
    "annotation_items",
    tables,
    Column("tenant", String(128), primary_key=True),
    Column("label", String(256), primary_key=True),
    Column("scope", String(7), primary_key=True),
    Column("subject_id", String(256), primary_key=True),
    Column("author", String(256), primary_key=True),
    Column("strategy", String(16), nullable=False),
    Column("at_random", Integer, nullable=False),
    Column("state", String(8), nullable=False),
    Column("label_uid", String(16), index=True),
    Column("drawn_ns", _BIG, nullable=False, index=True),
    Column("until_ns", _BIG, nullable=False),
    sqlite_with_rowid=False,
)
"""What people were asked to label: a row for each trace or session and author.

- `label`: the name under which they label. `scope`, `subject_id`: as in `evaluations`.
- `strategy`: by which it came first. `at_random`: 1 where the random order has reached it, whoever
  labelled it by then, so that it is part of the random sample.
- `state`: `leased` until `until_ns`; `skipped` by its author; `labelled` by its author, or `passed`
  since others did: `label_uid` is such a label.
"""

judge_answers = Table(
    "judge_answers",
    tables,
    Column("row", _BIG, primary_key=True, autoincrement=False),
    Column("key", String(256), nullable=False, unique=True),
    Column("stored_ns", _BIG, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("value", Text, nullable=False),
)

pending = Table(
    "pending",
    tables,
    Column("kind", String(8), primary_key=True),
    Column("subject", String(256), primary_key=True),
    Column("name", String(256), primary_key=True),
    Column("number", _BIG, primary_key=True, autoincrement=False),
    _tenant(),
    Column("cause", String(16), nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("due_ns", _BIG, nullable=False),
    Column("record", JSON),
    Index("pending_by_number", "kind", "number"),
    Index("pending_by_time", "kind", "due_ns"),
    sqlite_with_rowid=False,
)
"""What is done later, once it is due; `cause` is why it waits. By `kind`:

- `trace`, `session`: nobody answered for the metric `name` of `subject`; it is asked again.
  `number` is when it was asked first (Unix ns).
- `score`: the exporter `name` could not deliver the score `number`; due once somebody wants that.
- `alert`: the alert `number` of the monitor `subject` goes to the receiver `name`. Its cause is
  `new`, or `sent` where it is sent again while it lasts.
"""

runs = Table(
    "runs",
    tables,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("request_id", String(64)),
    Column("state", String(16), nullable=False, index=True),
    Column("created_ns", _BIG, nullable=False),
    Column("updated_ns", _BIG, nullable=False),
    Column("spec", Text, nullable=False),
    Column("progress", Text, nullable=False),
    Column("ids", Text, nullable=False, server_default=""),
    UniqueConstraint("tenant", "request_id"),
)
"""Evaluation runs; `request_id` is the key under which one was asked for, so that it is not created
twice.

`ids` has, as JSON, the ids that a target names one by one, which only its listing reads: `spec`
lacks them.
"""
Index("runs_by_age", runs.c.tenant, runs.c.created_ns, runs.c.id)

run_items = Table(
    "run_items",
    tables,
    Column("run", String(32), primary_key=True),
    Column("subject_id", String(256), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("tenant", String(128), nullable=False),
    Column("state", String(8), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("draw", _BIG, nullable=False),
    Column("error", Text),
    sqlite_with_rowid=False,
)
"""The traces or sessions that a run evaluates, in the order of `number`; by `draw` a sample is
taken.
"""
Index("run_items_by_state", run_items.c.run, run_items.c.state, run_items.c.number)
Index("run_items_by_draw", run_items.c.run, run_items.c.draw)

monitors = Table(
    "monitors",
    tables,
    Column("tenant", String(128), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("request_id", String(64)),
    Column("is_configured", Boolean, nullable=False),
    Column("record", JSON, nullable=False),
    UniqueConstraint("tenant", "request_id"),
    sqlite_with_rowid=False,
)
"""Monitors: those that were created through the API, and those of the configuration, as the server
that was started last had it. `record` is all of one, as JSON.
"""

monitor_history = Table(
    "monitor_history",
    tables,
    Column("tenant", String(128), primary_key=True),
    Column("monitor", String(64), primary_key=True),
    Column("session", String(256), primary_key=True),
    Column("at_ns", _BIG, primary_key=True, autoincrement=False),
    Column("outcome", String(16), nullable=False),
    Column("record", JSON, nullable=False),
    Index("monitor_history_by_outcome", "outcome", "tenant", "monitor", "at_ns"),
    sqlite_with_rowid=False,
)
"""What monitors did and read.

- Ticks have no `session`; `at_ns` is when one was due.
- Sessions are `open` until they are `counted`, and remembered after that, so that none is counted
  twice; `at_ns` is when the last score came. Traces without a session are one each.
"""


def version_of(connection: Connection, url: str) -> int | None:
    """The version of the tables in a database; None where there are none.

    Raises ConfigError where it is not `VERSION`.
    """
    database, found = inspect(connection), 0
    if connection.dialect.name == "sqlite":
        if is_whole(connection.exec_driver_sql) is not None:
            return VERSION
        found = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    elif database.has_table(marks.name):
        version = select(marks.c.number).where(marks.c.kind == _VERSION)
        found = connection.execute(version).scalar() or 0
        if found == VERSION and database.has_table(scores.name):
            return found
    # unreleased versions had other tables
    if not tables.tables.keys() & database.get_table_names():
        return None
    is_of = f"of version {found}" if found not in {0, VERSION} else "without a known version"
    raise ConfigError(
        f"{url}: its tables are {is_of}, and this spanscore reads version {VERSION}: read them with"
        " the spanscore that wrote them, or set another store.url, where a new store begins"
    )


BROKEN = "its header or its tables' names are not those that were written"
_VERSION = "version"


def is_whole(execute: Callable[[str], Any]) -> bool | None:
    """Whether an SQLite file has all of these tables and their version; None where it is not of
    this version, or has most of them not.
    """
    version = execute("PRAGMA user_version").fetchone()[0]
    made = set(_statements("sqlite"))
    missing = made.difference(sql for (sql,) in execute("SELECT sql FROM sqlite_master").fetchall())
    if version != VERSION:
        return None if missing else False
    return None if 2 * len(missing) > len(made) else not missing


def make(execute: Callable[[str], Any], dialect: str = "sqlite") -> None:
    """Make the tables in an empty database."""
    for statement in _statements(dialect):
        execute(statement)
    if dialect == "sqlite":
        execute(f"PRAGMA user_version = {VERSION}")
    else:
        execute(f"INSERT INTO {marks.name} VALUES ('{_VERSION}', '', '', {VERSION})")  # noqa: S608 - ours


def create(connection: Connection, url: str) -> None:
    """Make the tables, unless another process has made them meanwhile. Raises as `version_of`."""
    if connection.dialect.name == "postgresql":
        # what others commit is to be seen
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATING})"))
        for index in (x for table in tables.tables.values() for x in table.indexes):
            # only here: it imports SQLAlchemy's PostgreSQL
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    if version_of(connection, url) is None:
        make(connection.exec_driver_sql, connection.dialect.name)


@cache
def _statements(dialect: str) -> list[str]:
    """Return what makes the tables, compiled once a process: it takes longer than to run it."""
    made: list[ExecutableDDLElement] = []
    for table in tables.sorted_tables:
        made += [
            CreateTable(table),
            *map(CreateIndex, sorted(table.indexes, key=lambda x: str(x.name))),
        ]
    used = registry.load(dialect)()
    return [str(x.compile(dialect=used)).strip() for x in made]
