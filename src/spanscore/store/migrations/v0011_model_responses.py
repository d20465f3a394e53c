"""Model calls and external scores are found by the id of the model's response."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables, empty: traces that are stored already lack these ids."""
    op.create_table(
        "model_responses",
        sa.Column("response_id", sa.String(256), primary_key=True),
        sa.Column("agent_trace_id", sa.String(32), primary_key=True, index=True),
        sa.Column("tenant", sa.String(128), nullable=False, server_default=""),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "response_scores",
        sa.Column("response_id", sa.String(256), primary_key=True),
        sa.Column("row", _big, primary_key=True, autoincrement=False, index=True),
        sqlite_with_rowid=False,
    )
