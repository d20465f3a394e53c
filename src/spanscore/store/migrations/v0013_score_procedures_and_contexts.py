"""What analytics reads is narrower: what many scores have in common is a row of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables anew; the next version fills them."""
    op.drop_table("score_facts")
    op.drop_table("subject_facts")
    op.create_table(
        "score_facts",
        sa.Column("procedure", _big, primary_key=True, autoincrement=False),
        sa.Column("evaluated_ns", _big, primary_key=True, autoincrement=False),
        sa.Column("number", _big, primary_key=True, autoincrement=False, index=True),
        sa.Column("context", _big, nullable=False),
        sa.Column("cluster", _big, nullable=False),
        sa.Column("subject", _big, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("label", sa.String(256)),
        sa.Column("passing", sa.Integer),
        sa.Column("series", sa.String(16)),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "score_procedures",
        sa.Column("id", _big, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("scope", sa.String(7), nullable=False),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("source", sa.String(256)),
        sa.Column("run", sa.String(32), nullable=False),
        sa.Column("evaluator_kind", sa.String(8)),
        sa.Column("evaluator", sa.String(256), nullable=False),
        sa.Column("evaluator_version", sa.String(256), nullable=False),
        sa.Column("judge_model", sa.String(256)),
        sa.Column("prompt_hash", sa.String(256)),
        sa.Column("embedding", sa.String(256)),
        sa.Column("threshold", sa.Double),
        sa.Column("rule", sa.String(256)),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        sa.Column("sampling", sa.Double, nullable=False),
        sa.Column("status", sa.String(8), nullable=False),
        sa.Column("cause", sa.String(256)),
    )
    op.create_index("score_procedures_by_metric", "score_procedures", ["tenant", "metric"])
    op.create_table(
        "score_contexts",
        sa.Column("id", _big, primary_key=True, autoincrement=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("service", sa.String(256)),
        sa.Column("agent", sa.String(256)),
        sa.Column("environment", sa.String(256)),
        sa.Column("version", sa.String(256)),
        sa.Column("model", sa.String(256)),
    )
    op.create_table(
        "context_tools",
        sa.Column("context", _big, primary_key=True, autoincrement=False),
        sa.Column("tool", sa.String(256), primary_key=True),
        sqlite_with_rowid=False,
    )
