"""Buckets of time as people name them: an hour, day, week, month, quarter or year of a time
zone.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, TypeAlias

from spanscore.errors import FieldError
from spanscore.time_zones import zone_of

Unit: TypeAlias = Literal["hour", "day", "week", "month", "quarter", "year"]

MAX_BUCKETS: Final = 2000
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_NS: Final = 10**9
_LAST_YEAR: Final = 2262


def zone(name: str) -> tzinfo:
    """The time zone of this name, such as Europe/Berlin; "" is UTC. Raises FieldError."""
    try:
        return zone_of(name or "UTC")
    except ValueError as error:
        raise FieldError("time_zone", str(error)) from None


def edges(start_ns: int, end_ns: int, unit: Unit, time_zone: tzinfo) -> list[int]:
    """The beginnings of the buckets that cover `start_ns` to before `end_ns`, and the end of the
    last; Unix ns.

    A day begins at midnight of the time zone and has 23 or 25 hours where the clocks change; an
    hour has 60 minutes. Weeks begin on Monday. Raises FieldError where they are too many.

    >>> berlin = zone("Europe/Berlin")
    >>> days = edges(
    ...     1_774_738_800 * 10**9, 1_774_825_200 * 10**9, "day", berlin
    ... )  # 29 March 2026, clocks change
    >>> [(b - a) // 3_600_000_000_000 for a, b in zip(days, days[1:])]
    [23, 24]
    """
    found = []
    for edge in _from(start_ns, unit, time_zone):
        found.append(edge)
        if edge >= end_ns:
            return found
        if len(found) > MAX_BUCKETS:
            raise FieldError(
                "unit",
                f"more than {MAX_BUCKETS} buckets of one {unit}: take longer ones, or a shorter"
                " time",
            )
    return found


def _from(start_ns: int, unit: Unit, time_zone: tzinfo) -> Iterator[int]:
    """The beginning of the bucket that contains a moment, and of those after it."""
    moment = datetime.fromtimestamp(start_ns // _NS, UTC).astimezone(time_zone)
    if unit == "hour":
        first = moment.astimezone(UTC) - timedelta(minutes=moment.minute, seconds=moment.second)
        yield from (_ns(first + timedelta(hours=x)) for x in range(MAX_BUCKETS + 2))
        return
    begin = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - a day of the calendar
    if unit == "week":
        begin -= timedelta(days=begin.weekday())
    elif unit in _MONTHS:
        months = _MONTHS[unit]
        begin = begin.replace(month=(begin.month - 1) // months * months + 1, day=1)
    while begin.year <= _LAST_YEAR:
        yield _ns(begin.replace(tzinfo=time_zone))
        begin = _next(begin, unit)


def _next(begin: datetime, unit: Unit) -> datetime:
    if unit in _MONTHS:
        month = begin.month - 1 + _MONTHS[unit]
        return begin.replace(year=begin.year + month // 12, month=month % 12 + 1)
    return begin + timedelta(days=7 if unit == "week" else 1)


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * _NS
