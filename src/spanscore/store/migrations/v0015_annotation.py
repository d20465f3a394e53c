"""What people were asked to label, and which received scores were deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add two tables."""
    op.create_table(
        "deleted_scores",
        sa.Column("uid", sa.String(16), primary_key=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("deleted_ns", _big, nullable=False, index=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "annotation_items",
        sa.Column("tenant", sa.String(128), primary_key=True),
        sa.Column("label", sa.String(256), primary_key=True),
        sa.Column("scope", sa.String(7), primary_key=True),
        sa.Column("subject_id", sa.String(256), primary_key=True),
        sa.Column("author", sa.String(256), primary_key=True),
        sa.Column("strategy", sa.String(16), nullable=False),
        sa.Column("at_random", sa.Integer, nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("label_uid", sa.String(16), index=True),
        sa.Column("drawn_ns", _big, nullable=False, index=True),
        sa.Column("until_ns", _big, nullable=False),
        sqlite_with_rowid=False,
    )
