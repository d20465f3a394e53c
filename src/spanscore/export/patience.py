"""Calls of the store, repeated until it answers: without it nothing can be sent."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from spanscore.errors import PermanentError, RetryableError
from spanscore.telemetry import Complaints

T = TypeVar("T")

_NO_STORE = "export waits for the store"
_WAIT_FOR_REPAIR_S = 60.0


class Patience:
    """`get` gives what the store answers, however long it takes."""

    def __init__(self, complaints: Complaints, sleep: Callable[[float], Awaitable[object]]) -> None:
        """`sleep` takes seconds."""
        self._complaints = complaints
        self._sleep = sleep

    async def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` gives, once it raises neither RetryableError nor PermanentError."""
        while True:
            try:
                answer = await ask()
            except (RetryableError, PermanentError) as error:
                self._complaints.complain(_NO_STORE, str(error), level=logging.ERROR)
                await self._sleep(
                    error.retry_after_s if isinstance(error, RetryableError) else _WAIT_FOR_REPAIR_S
                )
            else:
                self._complaints.is_over(_NO_STORE)
                return answer
