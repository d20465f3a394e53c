"""What can be configured about the journal; apart from it, so that reading a configuration needs no
database.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from spanscore.model.options import Options
from spanscore.model.quantity import ByteSize


class Config(Options):
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
