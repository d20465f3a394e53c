"""The ids that a run's target names move out of its spec, which is then read in no time, however
many they are.
"""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_NAMES = ("trace_ids", "session_ids")

_runs = sa.table(
    "runs",
    sa.column("id", sa.String),
    sa.column("spec", sa.Text),
    sa.column("progress", sa.Text),
    sa.column("ids"),
)


def upgrade() -> None:
    """Add a column, and move the ids of each run into it."""
    op.add_column("runs", sa.Column("ids", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    for run in connection.execute(sa.select(_runs.c.id)).scalars().all():
        this = _runs.c.id == run
        spec, progress = connection.execute(
            sa.select(_runs.c.spec, _runs.c.progress).where(this)
        ).one()
        connection.execute(_runs.update().where(this).values(**_parted(spec, json.loads(progress))))


def _parted(spec: str, progress: dict[str, object]) -> dict[str, str]:
    """The row's new values; by the digest of the whole spec a creation under the same request id is
    recognised.
    """
    asked = (
        progress.get("asked") or hashlib.sha256(spec.encode("utf-8", "surrogatepass")).hexdigest()
    )
    parts = json.loads(spec)
    ids = {name: parts["target"].pop(name) for name in _NAMES if parts["target"].get(name)}
    return {
        "spec": json.dumps(parts),
        "ids": json.dumps(ids) if ids else "",
        "progress": json.dumps({**progress, "asked": asked, "named": sum(map(len, ids.values()))}),
    }
