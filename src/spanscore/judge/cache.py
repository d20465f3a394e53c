"""Answers that were paid for are kept by what was asked, and the same question asked twice at once
is asked once.
"""

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from spanscore.judge.port import Prompt
from spanscore.model.json import dumps

T = TypeVar("T")


class Cache(Protocol):
    """Texts by key.

    Called in threads; must not raise: what cannot be read is not there, what cannot be kept is not.
    """

    def get(self, key: str) -> str | None:
        """The text kept under `key`, or None."""
        ...

    def put(self, key: str, value: str) -> None:
        """Keep `value` under `key`."""
        ...

    def get_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        ...

    def put_all(self, answers: Mapping[str, str]) -> None:
        """Keep each text under its key."""
        ...


class MemoryCache:
    """The most recently used answers, in this process, at most `max_entries`."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        """The text kept under `key`, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, value: str) -> None:
        """Keep `value`, in place of the least recently used entry when full."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)

    def get_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        return {key: text for key in keys if (text := self.get(key)) is not None}

    def put_all(self, answers: Mapping[str, str]) -> None:
        """Keep each text under its key, as `put` does."""
        for key, text in answers.items():
            self.put(key, text)


def content_key(
    model: str, prompt: Prompt, schema: Mapping[str, Any], parameters: Mapping[str, Any]
) -> str:
    """SHA-256, in hex, of everything that an answer depends on."""
    fields: list[Any] = [
        model,
        prompt.instructions,
        prompt.transcript,
        prompt.question,
        schema,
        sorted(parameters.items()),
    ]
    fields += [prompt.sample] if prompt.sample else []
    fields += [{"tenant": prompt.tenant}] if prompt.tenant else []
    return hashlib.sha256(dumps(fields).encode()).hexdigest()


class SingleFlight(Generic[T]):
    """Runs one piece of work for a key at a time; whoever asks for it meanwhile gets the same
    result.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[T]] = {}

    async def run(self, key: str, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The result of `work`, and whether another caller did it.

        Raises what `work` raised, for each of them.

        When the caller that does the work is cancelled, one of those that wait takes over.
        """
        while (running := self._running.get(key)) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result(), True
        future = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            result = await work()
        except Exception as error:
            future.set_exception(error)
            future.exception()  # marks it as seen: nobody may be waiting
            raise
        else:
            future.set_result(result)
            return result, False
        finally:
            future.cancel()  # does nothing unless this caller was cancelled
            del self._running[key]
