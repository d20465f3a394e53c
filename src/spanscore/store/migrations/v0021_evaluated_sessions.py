"""Up to which agent trace each session was read for its last evaluation."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table; of older evaluations only the time is known."""
    op.create_table(
        "evaluated_sessions",
        sa.Column("session_id", sa.String(256), primary_key=True),
        sa.Column("until_row", _big, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(
        'INSERT INTO evaluated_sessions (session_id, until_row) SELECT t.session_id, MAX(t."row")'
        " FROM agent_traces AS t JOIN (SELECT subject_id, MAX(evaluated_ns) AS scored_ns FROM"
        " evaluations WHERE scope = 'session' AND run = '' GROUP BY subject_id) AS s ON"
        " s.subject_id = t.session_id AND t.stored_ns <= s.scored_ns GROUP BY t.session_id"
    )
