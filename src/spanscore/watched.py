"""Files that are read again when they change: certificates and tokens that are renewed while
spanscore runs.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Watched(Generic[T]):
    """What is made of files, and made again when one of them has changed. Thread-safe.

    The files are looked at when `get` is called, at most every `every_s` seconds; 0 looks each
    time.
    """

    def __init__(
        self,
        files: Sequence[Path],
        make: Callable[[], T],
        *,
        every_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises what `make` raises."""
        self._files = tuple(files)
        self._make = make
        self._every_s = every_s
        self._clock_s = clock_s
        self._lock = Lock()
        self._looked_s = clock_s()
        self._state = self._look()
        self._value = make()

    def get(self) -> T:
        """What the files make now; as before, with a line in the log, where they make nothing:
        half-written, say.
        """
        with self._lock:
            now_s = self._clock_s()
            if now_s - self._looked_s >= self._every_s:
                self._looked_s = now_s
                self._renew()
            return self._value

    def _renew(self) -> None:
        state = self._look()
        if state == self._state:
            return
        self._state = state
        names = ", ".join(map(str, self._files))
        try:
            self._value = self._make()
        except (OSError, ValueError) as error:
            _log.warning(
                "%s changed and cannot be used (%s); what was there before stays in use",
                names,
                error,
            )
        else:
            _log.info("%s changed and was read again", names)

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_state_of, self._files))


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
