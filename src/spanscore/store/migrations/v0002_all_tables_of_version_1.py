"""Every table of version 1: earlier releases of that version had some of them and added the others
when opened.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_tables = sa.MetaData()

sa.Table(
    "spanscore_schema",
    _tables,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)

_agent_traces = sa.Table(
    "agent_traces",
    _tables,
    sa.Column("row", _big, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(32), nullable=False, unique=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("session_id", sa.String(256)),
    sa.Column("started_ns", _big, nullable=False),
    sa.Column("stored_ns", _big, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)
sa.Index(
    "agent_traces_by_session",
    _agent_traces.c.session_id,
    sqlite_where=_agent_traces.c.session_id.is_not(None),
)

sa.Table(
    "otel_traces",
    _tables,
    sa.Column("trace_id", sa.String(32), primary_key=True),
    sa.Column("agent_trace_id", sa.String(32), primary_key=True, index=True),
    sqlite_with_rowid=False,
)

sa.Table(
    "session_keys",
    _tables,
    sa.Column("session_id", sa.String(256), primary_key=True),
    sa.Column("session_key", sa.String(256), primary_key=True, index=True),
    sqlite_with_rowid=False,
)

sa.Table(
    "evaluations",
    _tables,
    sa.Column("seq", _big, primary_key=True, autoincrement=False),
    sa.Column("subject_id", sa.String(256), nullable=False),
    sa.Column("uid", sa.String(16), nullable=False),
    sa.Column("scope", sa.String(7), nullable=False),
    sa.Column("metric", sa.String(256), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("evaluated_ns", _big, nullable=False),
    sa.Column("stored_ns", _big, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
    sa.UniqueConstraint("subject_id", "scope", "metric", "revision", "uid"),
)

sa.Table(
    "external_scores",
    _tables,
    sa.Column("row", _big, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.String(16), nullable=False, unique=True),
    sa.Column("scope", sa.String(7), nullable=False),
    sa.Column("trace_id", sa.String(32), index=True),
    sa.Column("session_key", sa.String(256), index=True),
    sa.Column("metric", sa.String(256), nullable=False),
    sa.Column("given_ns", _big, nullable=False),
    sa.Column("stored_ns", _big, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)

sa.Table(
    "export_cursors",
    _tables,
    sa.Column("exporter", sa.String(256), primary_key=True),
    sa.Column("seq", _big, nullable=False),
)

sa.Table(
    "judge_answers",
    _tables,
    sa.Column("row", _big, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(256), nullable=False, unique=True),
    sa.Column("stored_ns", _big, nullable=False),
    sa.Column("size_bytes", sa.Integer, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
)

sa.Table(
    "unanswered",
    _tables,
    sa.Column("scope", sa.String(7), primary_key=True),
    sa.Column("subject_id", sa.String(256), primary_key=True),
    sa.Column("metric", sa.String(256), primary_key=True),
    sa.Column("cause", sa.String(16), nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("first_ns", _big, nullable=False),
    sa.Column("due_ns", _big, nullable=False, index=True),
    sqlite_with_rowid=False,
)

sa.Table(
    "undelivered",
    _tables,
    sa.Column("exporter", sa.String(256), primary_key=True),
    sa.Column("seq", _big, primary_key=True, autoincrement=False, index=True),
    sa.Column("forms", sa.String(64), nullable=False),
    sa.Column("reason", sa.String(16), nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("since_ns", _big, nullable=False),
    sa.Column("asked", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

sa.Table(
    "calibrations",
    _tables,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("stored_ns", _big, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)


def upgrade() -> None:
    """Create the tables that are not there."""
    _tables.create_all(op.get_bind())
