"""Whose a row is; what two tenants gave to one OTel trace id is kept apart."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_OF_TENANTS = {
    "agent_traces_by_tenant_row": ("agent_traces", ["tenant", "row"]),
    "agent_traces_by_tenant_session_id": ("agent_traces", ["tenant", "session_id", "row"]),
    "evaluations_by_tenant_seq": ("evaluations", ["tenant", "seq"]),
    "external_scores_by_tenant_row": ("external_scores", ["tenant", "row"]),
}


def upgrade() -> None:
    """Add a column to five tables, which is "" in all that is there, and make it part of a sixth
    one's key.
    """
    for table in ("agent_traces", "otel_traces", "session_keys", "evaluations", "external_scores"):
        op.add_column(table, sa.Column("tenant", sa.String(128), nullable=False, server_default=""))
    is_one = sa.text("tenant != ''")
    for name, (table, columns) in _OF_TENANTS.items():
        op.create_index(name, table, columns, sqlite_where=is_one, postgresql_where=is_one)
    if op.get_bind().dialect.name == "sqlite":
        _make_subject_facts_anew()
    else:
        op.drop_constraint("subject_facts_pkey", "subject_facts", type_="primary")
        op.create_primary_key(
            "subject_facts_pkey", "subject_facts", ["scope", "subject_id", "tenant"]
        )


def _make_subject_facts_anew() -> None:
    """SQLite cannot change the key of a table."""
    op.drop_index("ix_subject_facts_last_number", "subject_facts")
    op.rename_table("subject_facts", "subject_facts_before")
    op.create_table(
        "subject_facts",
        sa.Column("scope", sa.String(7), primary_key=True),
        sa.Column("subject_id", sa.String(256), primary_key=True),
        sa.Column("last_number", _big, nullable=False, index=True),
        sa.Column("tenant", sa.String(128), primary_key=True),
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
    op.execute("INSERT INTO subject_facts SELECT * FROM subject_facts_before")
    op.drop_table("subject_facts_before")
