"""Indexes by which agent traces are listed in the order of when they started."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the indexes."""
    op.create_index("agent_traces_by_start", "agent_traces", ["started_ns", "row"])
    op.create_index(
        "agent_traces_by_tenant_started_ns",
        "agent_traces",
        ["tenant", "started_ns", "row"],
        sqlite_where=sa.text("tenant != ''"),
    )
