"""Whose a calibration is, and keys that servers share."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tenant, "" in all that is there, part of a table's key; add a table."""
    if op.get_bind().dialect.name == "sqlite":
        _make_calibrations_anew()
    else:
        op.add_column(
            "calibrations", sa.Column("tenant", sa.String(128), nullable=False, server_default="")
        )
        op.drop_constraint("calibrations_pkey", "calibrations", type_="primary")
        op.create_primary_key("calibrations_pkey", "calibrations", ["key", "tenant"])
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.String(64), nullable=False),
        sqlite_with_rowid=False,
    )


def _make_calibrations_anew() -> None:
    """SQLite cannot change the key of a table."""
    op.rename_table("calibrations", "calibrations_before")
    op.create_table(
        "calibrations",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("stored_ns", _big, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("tenant", sa.String(128), primary_key=True, server_default=""),
    )
    op.execute(
        "INSERT INTO calibrations SELECT key, stored_ns, record, '' FROM calibrations_before"
    )
    op.drop_table("calibrations_before")
