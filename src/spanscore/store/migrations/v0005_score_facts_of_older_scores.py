"""The facts of scores from before there were any are written by version 14, which has them in other
tables.
"""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing is to do."""
