"""Stored traces for whoever does not await: a thread's own event loop, and copies of objects in
files.
"""

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from spanscore.errors import InputError
from spanscore.otlp.files import Telemetry
from spanscore.sources import objects, opened
from spanscore.sources.location import Location
from spanscore.sources.port import Source, Stored
from spanscore.sources.reading import read
from spanscore.temporary_files import temporary_folder

T = TypeVar("T")


class Stopped:
    """Whether reading is to end: `set` also ends the request that is under way. Thread-safe."""

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """End reading."""
        with self._lock:
            self._is_set = True
            if self._cancel is not None:
                self._cancel()

    @contextmanager
    def ends(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While inside, `set` calls `cancel`."""
        with self._lock:
            self._cancel = cancel
        try:
            yield
        finally:
            with self._lock:
                self._cancel = None


def stored_traces(
    location: Location, stopped: Stopped | None = None, source: Source | None = None
) -> Iterator[Stored]:
    """The traces that a backend's URL names, by their start; see `reading.read`.

    Not to be called in an event loop.
    """
    source = source or opened(location)
    return _in_own_loop(
        _closing(source, read(source, location.query, str(location))), stopped or Stopped()
    )


def add(found: Telemetry, stored: Stored) -> None:
    """Add one trace."""
    found.spans += stored.spans
    found.logs += stored.logs
    found.refused += stored.refused
    if stored.truncated:
        found.truncated[stored.trace_id] = stored.truncated


@contextmanager
def copies(location: Location) -> Iterator[Path]:
    """A folder with what a URL of files names, for as long as the context lasts; local files stay
    where they are.
    """
    if (local := objects.local_path(location)) is not None:
        yield local
        return
    folder = temporary_folder("spanscore-source-")
    try:
        objects.copy(location, folder)
        yield folder
    except InputError as error:
        raise InputError(str(error).replace(str(folder), str(location))) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _closing(source: Source, items: AsyncIterator[Stored]) -> AsyncIterator[Stored]:
    try:
        async for item in items:
            yield item
    finally:
        await source.close()


def _in_own_loop(items: AsyncIterator[T], stopped: Stopped) -> Iterator[T]:
    """What an async iterator gives, its loop running only while the next item is waited for."""
    loop = asyncio.new_event_loop()
    try:
        while not stopped:
            task: asyncio.Task[Any] = loop.create_task(_next(items))
            with stopped.ends(lambda task=task: loop.call_soon_threadsafe(task.cancel)):  # type: ignore[misc]
                try:
                    item = loop.run_until_complete(task)
                except (StopAsyncIteration, asyncio.CancelledError):
                    return
            yield item[0]
    finally:
        with contextlib.suppress(RuntimeError):
            loop.run_until_complete(items.aclose())  # type: ignore[attr-defined] # a generator has it
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _next(items: AsyncIterator[T]) -> tuple[T]:
    return (await anext(items),)
