"""What was answered under request ids: a request that comes twice, since its answer was lost, is worked off once."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from spanscore.api.requests import shown
from spanscore.errors import ExistsError

ResponseT = TypeVar("ResponseT", bound=Message)

KEPT_S: Final = 3600.0
_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class _Answer:
    request: bytes
    response: "asyncio.Future[Message]"
    asked_s: float


class Answered:
    """The answers of the last hour, at most 500. Belongs to one event loop."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._answers: dict[tuple[str, str, str], _Answer] = {}

    async def once(
        self, tenant: str, request: Message, request_id: str, answer: Callable[[], Awaitable[ResponseT]]
    ) -> ResponseT:
        """What `answer` gives, or has given for the same request of the same tenant; it is waited for meanwhile.

        What failed is tried again. Raises ExistsError where something else was asked for under the request id.
        """
        name, content = request.DESCRIPTOR.full_name, request.SerializeToString(deterministic=True)
        key = (tenant, name, request_id)
        self._forget()
        while (known := self._answers.get(key)) is not None:
            if known.request != content:
                raise ExistsError(f"request_id {shown(request_id)}: something else was asked for under it before")
            if not known.response.done():
                await asyncio.wait([known.response])
            if not known.response.cancelled():
                return known.response.result()  # type: ignore[return-value]  # of the same kind of request
        response = asyncio.get_running_loop().create_future()
        self._answers[key] = _Answer(content, response, self._clock_s())
        try:
            found = await answer()
            response.set_result(found)
        finally:
            if not response.done():
                response.cancel()
                del self._answers[key]
        return found

    def _forget(self) -> None:
        """Forget the oldest answers, but for those that are still made."""
        before_s = self._clock_s() - KEPT_S
        for key, known in list(self._answers.items()):
            if known.asked_s > before_s and len(self._answers) < _MOST:
                return
            if known.response.done():
                del self._answers[key]
