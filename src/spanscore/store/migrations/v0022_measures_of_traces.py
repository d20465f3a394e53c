"""A table of what agent traces are ordered by; the next version fills it."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "trace_measures",
        sa.Column("row", _big, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("latency_ns", _big, nullable=False),
        sa.Column("tokens", _big),
        sa.Column("tool_errors", sa.Integer),
    )
