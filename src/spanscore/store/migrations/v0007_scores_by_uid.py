"""Evaluations are found by their uid."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add an index."""
    op.create_index("evaluations_by_uid", "evaluations", ["uid"])
