"""Monitors that are created through the API, and the runs that their ticks start."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add a table, and three columns to the ticks."""
    op.create_table(
        "monitors",
        sa.Column("tenant", sa.String(128), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("request_id", sa.String(64)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_ns", _big, nullable=False),
        sa.Column("updated_ns", _big, nullable=False),
        sa.Column("due_from_ns", _big, nullable=False),
        sa.Column("until_row", _big, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.UniqueConstraint("tenant", "request_id"),
        sqlite_with_rowid=False,
    )
    op.add_column("monitor_ticks", sa.Column("run", sa.String(32)))
    op.add_column("monitor_ticks", sa.Column("request_id", sa.String(64)))
    op.add_column("monitor_ticks", sa.Column("facts", sa.Text))
    op.create_index("monitor_ticks_by_outcome", "monitor_ticks", ["outcome", "due_ns"])
