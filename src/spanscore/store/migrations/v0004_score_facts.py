"""A narrow row for each newest score, and one for what it is of: what analytics reads."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables, which the next version fills."""
    op.create_table(
        "score_facts",
        sa.Column("number", _big, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("scope", sa.String(7), nullable=False),
        sa.Column("subject_id", sa.String(256), nullable=False),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("series", sa.String(32), nullable=False),
        sa.Column("source", sa.String(256)),
        sa.Column("evaluator_kind", sa.String(8)),
        sa.Column("judge_model", sa.String(256)),
        sa.Column("rule", sa.String(256)),
        sa.Column("status", sa.String(8), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("label", sa.String(256)),
        sa.Column("passing", sa.Integer),
        sa.Column("sampling", sa.Double, nullable=False),
        sa.Column("evaluated_ns", _big, nullable=False),
    )
    op.create_index("score_facts_by_metric", "score_facts", ["tenant", "metric", "evaluated_ns"])
    op.create_table(
        "subject_facts",
        sa.Column("scope", sa.String(7), primary_key=True),
        sa.Column("subject_id", sa.String(256), primary_key=True),
        sa.Column("last_number", _big, nullable=False, index=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("session_key", sa.String(256)),
        sa.Column("service", sa.String(256)),
        sa.Column("agent", sa.String(256)),
        sa.Column("environment", sa.String(256)),
        sa.Column("model", sa.String(256)),
        sa.Column("started_ns", _big),
        sa.Column("latency_ns", _big),
        sa.Column("input_tokens", _big),
        sa.Column("output_tokens", _big),
        sqlite_with_rowid=False,
    )
