"""What monitors of the configuration have come to, such as which traces their runs were about."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add a table; its rows are written when a server starts."""
    op.create_table(
        "configured_monitors",
        sa.Column("tenant", sa.String(128), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_ns", _big, nullable=False),
        sa.Column("updated_ns", _big, nullable=False),
        sa.Column("due_from_ns", _big, nullable=False),
        sa.Column("until_row", _big, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
