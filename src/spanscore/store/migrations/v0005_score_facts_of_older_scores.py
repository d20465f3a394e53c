"""The facts of scores from before there were any are written by version 9, which has the tables as they are now."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing is to do."""
