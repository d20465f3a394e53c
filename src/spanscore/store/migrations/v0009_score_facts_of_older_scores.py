"""The facts of scores from before there were any."""

from sqlalchemy.engine import Connection

from spanscore.store import facts

revision = "0009"
down_revision = "0008"


def fill(connection: Connection) -> bool:
    """Write the facts of some hundred scores."""
    return facts.fill(connection)


def upgrade() -> None:
    """Nothing is left to do."""
