"""When a monitor looks: at the times of a cron expression in a time zone, or at an interval."""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING

from spanscore.time_zones import zone_of

if TYPE_CHECKING:
    from cronsim import CronSim

_SECOND = 10**9


class Schedule:
    """The times of one monitor, in ns since the Unix epoch; those of an interval are its
    multiples.
    """

    def __init__(
        self,
        name: str,
        *,
        cron: str | None = None,
        time_zone: str = "UTC",
        every_ns: int = 0,
        jitter_ns: int = 0,
    ) -> None:
        """Either `cron` or `every_ns`.

        `jitter_ns`: each time is later by up to this, for one `name` always as much.

        Raises ValueError where an expression or a time zone is none, or the expression has no time
        at all.
        """
        self._every_ns = every_ns
        self._cron = cron
        self._zone = zone_of(time_zone)
        self._later_ns = zlib.crc32(name.encode()) * jitter_ns >> 32
        if cron is not None:
            check_cron(cron)

    def next_after(self, at_ns: int) -> int:
        """The first time after `at_ns`.

        A cron expression is met as Debian's cron does it: what falls into the time that is skipped
        when clocks go forward comes right after it, and what falls into the time that there is
        twice comes once. Where minute or hour is `*` or a step of it, the times go on as if clocks
        had not changed.

        >>> Schedule("a", every_ns=60 * 10**9).next_after(90 * 10**9) // 10**9
        120
        """
        at_ns -= self._later_ns
        if self._cron is None:
            return (at_ns // self._every_ns + 1) * self._every_ns + self._later_ns
        return next(_times(self._cron, self._zone, at_ns)) + self._later_ns

    def last_until(self, at_ns: int, after_ns: int) -> int | None:
        """The last time after `after_ns` that is not after `at_ns`; None where there is none."""
        if self._cron is None:
            last_ns = (at_ns - self._later_ns) // self._every_ns * self._every_ns + self._later_ns
            return last_ns if last_ns > after_ns else None
        # From some way back, so that a server that was down for a year does not go through all of
        # its minutes.
        for back_ns in (3600 * _SECOND, 40 * 86400 * _SECOND, at_ns):
            found = None
            for time_ns in _times(
                self._cron, self._zone, max(at_ns - back_ns, after_ns) - self._later_ns
            ):
                if time_ns + self._later_ns > at_ns:
                    break
                found = time_ns + self._later_ns
            if found is not None or at_ns - back_ns <= after_ns:
                return found
        return None


def _times(cron: str, zone: tzinfo, after_ns: int) -> Iterator[int]:
    """The times after `after_ns`, in ns since the Unix epoch."""
    for found in _parsed(cron, datetime.fromtimestamp(after_ns // _SECOND, UTC).astimezone(zone)):
        found_ns = int(found.timestamp()) * _SECOND
        # in the second of two equal hours, CronSim begins with one of the first
        if found_ns > after_ns:
            yield found_ns


def _parsed(cron: str, after: datetime) -> "CronSim":
    """The times of an expression after one. Raises ValueError where it is none."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - a server without monitors need not load it

    try:
        return CronSim(cron, after)
    except CronSimError as error:
        raise ValueError(
            f"cron {cron!r}: {error}; write minute, hour, day, month and day of the week"
        ) from None


def check_cron(cron: str) -> None:
    """Raise ValueError where an expression is none, or has no time at all."""
    if next(_times(cron, UTC, 0), None) is None:
        raise ValueError(f"cron {cron!r}: there is no such time")


def interval_s(cron: str) -> int:
    """How many seconds there are at least between two times of an expression.

    >>> interval_s("*/15 * * * * *"), interval_s("0 3 * * *")
    (15, 60)
    """
    seconds = sorted(_parsed(cron, datetime.fromtimestamp(0, UTC)).seconds)
    return min(later - earlier for earlier, later in pairwise([*seconds, seconds[0] + 60]))
