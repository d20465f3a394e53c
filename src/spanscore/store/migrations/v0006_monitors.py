"""What monitors know, their looks, the sessions they have seen, and alerts on their way."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_tables = sa.MetaData()

sa.Table(
    "monitor_states",
    _tables,
    sa.Column("tenant", sa.String(128), primary_key=True),
    sa.Column("monitor", sa.String(256), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("seq", _big, nullable=False),
    sa.Column("looked_ns", _big, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

sa.Table(
    "monitor_ticks",
    _tables,
    sa.Column("tenant", sa.String(128), primary_key=True),
    sa.Column("monitor", sa.String(256), primary_key=True),
    sa.Column("due_ns", _big, primary_key=True, autoincrement=False),
    sa.Column("looked_ns", _big, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("scores", sa.Integer, nullable=False),
    sa.Column("sessions", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

_monitor_scores = sa.Table(
    "monitor_scores",
    _tables,
    sa.Column("tenant", sa.String(128), primary_key=True),
    sa.Column("monitor", sa.String(256), primary_key=True),
    sa.Column("unit", sa.String(256), primary_key=True),
    sa.Column("subject", sa.String(256), primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("chance", sa.Double, nullable=False),
    sa.Column("seen_ns", _big, nullable=False),
    sa.Column("counted", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
sa.Index(
    "monitor_scores_by_time",
    _monitor_scores.c.tenant,
    _monitor_scores.c.monitor,
    _monitor_scores.c.seen_ns,
)

sa.Table(
    "alert_notices",
    _tables,
    sa.Column("number", _big, primary_key=True, autoincrement=False),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("monitor", sa.String(256), nullable=False),
    sa.Column("receiver", sa.String(256), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("record", sa.Text, nullable=False),
    sa.Column("due_ns", _big, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("delivered", sa.Integer, nullable=False),
)


def upgrade() -> None:
    """Create the tables."""
    _tables.create_all(op.get_bind())
