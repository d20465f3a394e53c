"""How long an estimate may take."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from spanscore.errors import InputError

DEADLINE_S: Final = 120.0

ItemT = TypeVar("ItemT")


class Limit:
    """Ends an estimate `DEADLINE_S` after it was asked for, or as soon as nobody waits for it.

    Thread-safe.
    """

    def __init__(self) -> None:
        """The time runs from here on."""
        self._deadline_s = DEADLINE_S
        self._until_s = time.monotonic() + self._deadline_s
        self._is_given_up = False
        self._stop: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{self._deadline_s:g} s"

    def give_up(self) -> None:
        """End it now."""
        with self._lock:
            self._is_given_up = True
            if self._stop is not None:
                self._stop()

    def each(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """These items. Raises InputError where the time is over before the last."""
        for item in items:
            if self._is_given_up or time.monotonic() >= self._until_s:
                raise InputError(
                    f"cannot be estimated in {self}; narrow the filter, or create the run with a"
                    " budget"
                )
            yield item

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """While inside, have `stop` called as soon as the time is over."""
        with self._lock:
            self._stop = stop
            if self._is_given_up:
                stop()
        timer = threading.Timer(max(0.0, self._until_s - time.monotonic()), stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
