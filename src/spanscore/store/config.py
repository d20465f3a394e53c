"""What can be configured about the store: where it is, and how long things stay in it."""

from typing import Literal

from pydantic import Field

from spanscore.model.options import Options
from spanscore.model.quantity import ByteSize, Duration, duration_ns


class Retention(Options):
    """How long what is stored is kept; whichever bound is reached first."""

    max_age: Duration | None = duration_ns("7d")
    """Traces, scores and judge answers older than this are deleted; null keeps them for ever."""

    max_bytes: ByteSize | None = 2**30
    """Bytes of traces, scores and judge answers at most, the oldest deleted first; null sets no
    bound.
    """


class Config(Options):
    """Where traces, scores and judge answers are kept."""

    url: str = "sqlite:///spanscore.db"
    """A database URL as SQLAlchemy writes it: `sqlite:///FILE` or
    `postgresql+psycopg://user:password@host/database`.
    """

    retention: Retention = Retention()
    """How long what is stored is kept."""

    busy_timeout: Duration = Field(default=duration_ns("5s"), ge=0)
    """How long a write waits for another process that holds the SQLite file."""

    synchronous: Literal["normal", "full"] = "normal"
    """SQLite only: `normal` survives kill -9, `full` a power loss too, for one fsync a commit."""
