"""Faults that last are logged when they begin and once a minute, not at every attempt."""

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)

_COMPLAIN_EVERY_NS = 60 * 10**9


class Complaints:
    """Says what goes wrong when it begins, then once a minute, with how often it did: a store can
    be down all night.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        """`clock_ns` gives Unix nanoseconds."""
        self._clock_ns = clock_ns
        # by subject: when it was last said, and how often not since
        self._last: dict[str, tuple[int, int]] = {}

    def complain(
        self,
        about: str,
        what: str,
        *,
        level: int = logging.WARNING,
        error: Exception | None = None,
    ) -> None:
        """Log `what`, with the traceback of `error`, unless there was a line about the same less
        than a minute ago.

        `about` is one of few.
        """
        now_ns = self._clock_ns()
        # so that lines about something else do not use up what may be said of this
        fault = {"fault": about}
        if about not in self._last:
            _log.log(level, "%s: %s", about, what, exc_info=error, extra=fault)
        else:
            logged_ns, unlogged = self._last[about]
            if 0 <= now_ns - logged_ns < _COMPLAIN_EVERY_NS:
                self._last[about] = logged_ns, unlogged + 1
                return
            line = "%s: %s (%d times since the last line about it)"
            _log.log(level, line, about, what, unlogged + 1, exc_info=error, extra=fault)
        self._last[about] = now_ns, 0

    def is_over(self, about: str) -> bool:
        """Forget what was wrong; whether anything was."""
        return self._last.pop(about, None) is not None
