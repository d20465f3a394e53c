"""Who takes over what the servers receive."""

from collections.abc import Mapping
from typing import Any, Protocol

from google.protobuf.message import Message

from spanscore.model.headers import Headers
from spanscore.otlp.signal import Signal


class Intake(Protocol):
    """Takes requests over; once a method returns, the sender learns that its data are safe."""

    async def accept(
        self, signal: Signal, body: bytes, request: Message, headers: Headers = ()
    ) -> None:
        """Keep a request: `body` in protobuf, `request` the same decoded, with the headers that
        exporters may need.

        Raises RetryableError when it cannot now.
        """
        ...

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put aside a request that cannot be decoded: `body` as it came.

        Raises RetryableError when it cannot now.
        """
        ...

    @property
    def trouble(self) -> str | None:
        """Why a request would not be kept now; None where it would."""
        ...

    @property
    def notice(self) -> str | None:
        """What does not work although requests are kept; None where all does."""
        ...

    def health(self) -> Mapping[str, Any]:
        """What the health check shows beside the counters, as a JSON object."""
        ...
