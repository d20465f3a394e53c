"""Evaluation runs and their items; which run made an evaluation."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add a column to the evaluations, and two tables."""
    op.add_column("evaluations", sa.Column("run", sa.String(32), nullable=False, server_default=""))
    op.create_index(
        "evaluations_by_run", "evaluations", ["run", "seq"], sqlite_where=sa.text("run != ''")
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("created_ns", _big, nullable=False),
        sa.Column("updated_ns", _big, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.UniqueConstraint("tenant", "request_id"),
    )
    op.create_index("runs_by_age", "runs", ["tenant", "created_ns", "id"])
    op.create_table(
        "run_items",
        sa.Column("run", sa.String(32), primary_key=True),
        sa.Column("subject_id", sa.String(256), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("draw", _big, nullable=False),
        sa.Column("error", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("run_items_by_state", "run_items", ["run", "state", "number"])
    op.create_index("run_items_by_draw", "run_items", ["run", "draw"])
