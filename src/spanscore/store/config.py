"""The options of store and journal."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from spanscore.model.options import ByteSize, Duration, Options, duration_ns


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


class JournalConfig(Options):
    """Where acknowledged requests are kept, and how many."""

    path: Path = Path("spanscore-journal.db")
    """The journal's file. Its folder must be on a local disk."""

    max_bytes: ByteSize = 2 * 2**30
    """Bytes of requests at most; past it senders get UNAVAILABLE and keep what they have.

    Empty, it takes any.
    """

    synchronous: Literal["normal", "full"] = "normal"
    """`normal` survives kill -9, `full` a power loss too, for one fsync a commit."""

    max_quarantined: int = Field(default=1000, ge=0)
    """Requests kept aside because they could not be read; above it the oldest is dropped."""
