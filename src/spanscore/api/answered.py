"""What was answered under request ids: a request that comes twice, since its answer was lost, is
worked off once.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import Message

from spanscore.api.requests import shown
from spanscore.errors import ExistsError

ResponseT = TypeVar("ResponseT", bound=Message)

KEPT_S: Final = 3600.0
MOST_OF_TENANT: Final = 500
_MAX_BYTES: Final = 32 * 2**20
_BYTES_BESIDE: Final = 2**10  # about what is kept of an answer beside its response

_Key: TypeAlias = tuple[str, str, str]
"""Tenant, kind of request, request id."""


@dataclass(slots=True)
class _Answer:
    digest: bytes
    """Of the request."""
    response: "asyncio.Task[Any]"
    received_s: float
    size_bytes: int = 0
    """0 until it is there."""


class Answered:
    """The answers of the last hour: at most 500 of a tenant, and `max_bytes` of all tenants.

    What exceeds the bytes is taken from the tenant whose answers take most. Belongs to one event
    loop.
    """

    def __init__(
        self, clock_s: Callable[[], float] = time.monotonic, max_bytes: int = _MAX_BYTES
    ) -> None:
        self._clock_s = clock_s
        self._max_bytes = max_bytes
        self._answers: dict[_Key, _Answer] = {}  # the oldest first
        self._counts = Counter[str]()
        self._sizes_bytes = Counter[str]()

    async def once(
        self,
        tenant: str,
        request: Message,
        request_id: str,
        answer: Callable[[], Coroutine[Any, Any, ResponseT]],
    ) -> ResponseT:
        """What `answer` gives, or has given for the same request of the same tenant; it is waited
        for meanwhile.

        `answer` goes on where the caller is cancelled, as when its connection breaks. What failed
        is tried again. Raises ExistsError where something else was asked for under the request id.
        """
        key = (tenant, request.DESCRIPTOR.full_name, request_id)
        digest = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
        self._forget_old()
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = _Answer(
                digest, asyncio.create_task(answer()), self._clock_s()
            )
            known.response.add_done_callback(partial(self._settle, key, known))
        elif known.digest != digest:
            raise ExistsError(
                f"request_id {shown(request_id)}: something else was asked for under it before"
            )
        response: ResponseT = await asyncio.shield(known.response)
        return response

    def _settle(self, key: _Key, known: _Answer, response: "asyncio.Task[Any]") -> None:
        """Keep an answer within the bounds; forget what failed."""
        if response.cancelled() or response.exception() is not None:
            del self._answers[key]
            return
        tenant = key[0]
        known.size_bytes = response.result().ByteSize() + _BYTES_BESIDE
        self._counts[tenant] += 1
        self._sizes_bytes[tenant] += known.size_bytes
        if self._counts[tenant] > MOST_OF_TENANT:
            self._forget_oldest(tenant)
        while self._sizes_bytes.total() > self._max_bytes:
            [(largest, _)] = self._sizes_bytes.most_common(1)
            self._forget_oldest(largest)

    def _forget_old(self) -> None:
        """Forget the answers past their time, but for those that are still made."""
        before_s = self._clock_s() - KEPT_S
        old = list(takewhile(lambda x: x[1].received_s <= before_s, self._answers.items()))
        for key, known in old:
            if known.size_bytes:
                self._forget(key)

    def _forget_oldest(self, tenant: str) -> None:
        self._forget(
            next(
                key for key, known in self._answers.items() if key[0] == tenant and known.size_bytes
            )
        )

    def _forget(self, key: _Key) -> None:
        tenant, forgotten = key[0], self._answers.pop(key)
        self._counts[tenant] -= 1
        self._sizes_bytes[tenant] -= forgotten.size_bytes
        if not self._counts[tenant]:
            del self._counts[tenant], self._sizes_bytes[tenant]
