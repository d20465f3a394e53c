"""The tags of scored traces. Scores that are there have none: so far, tags were kept only where a
rule read them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table and the column."""
    op.create_table(
        "score_tags",
        sa.Column("tenant", sa.String(128), primary_key=True),
        sa.Column("tags", _big, primary_key=True, autoincrement=False),
        sa.Column("tag", sa.String(256), primary_key=True),
        sqlite_with_rowid=False,
    )
    op.add_column("score_facts", sa.Column("tags", _big))
