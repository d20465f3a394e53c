"""Times as a transcript gives them: the turn's start in UTC, and each step's distance from it."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_NS = 946_684_800 * 10**9  # 2000: what is before comes from a clock that was never set
_SLOW_NS = 2 * 10**9
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def moment(at_ns: int) -> str | None:
    """A time in UTC with its day of the week; None where the clock was not set.

    >>> moment(1715785200_000000000)
    '2024-05-15 15:00:00 UTC, a Wednesday'
    """
    if at_ns < _EARLIEST_NS:
        return None
    try:
        at = _EPOCH + timedelta(seconds=at_ns // 10**9)
    except OverflowError:
        return None
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, a {_DAYS[at.weekday()]}"


def lasted(duration_ns: int) -> str:
    """A duration for reading.

    >>> [lasted(x * 10**8) for x in (0, 12, 250, 4000, 90_000)]
    ['0.0 s', '1.2 s', '25 s', '6 min 40 s', '2 h 30 min']
    """
    seconds = duration_ns / 10**9
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def step_time(started_ns: int | None, ended_ns: int | None, turn_started_ns: int) -> str:
    """When a step began after its turn's start and, of a slow one, how long it took; "" where
    nobody knows.

    In brackets, with a space before them.

    >>> (
    ...     step_time(3_200_000_000, 9_000_000_000, 2_000_000_000),
    ...     step_time(3_200_000_000, None, 2_000_000_000),
    ... )
    (' (+1.2 s, took 5.8 s)', ' (+1.2 s)')
    """
    if started_ns is None or started_ns <= 0 or turn_started_ns <= 0:
        return ""
    sign = "+" if started_ns >= turn_started_ns else "-"
    duration_ns = 0 if ended_ns is None else ended_ns - started_ns
    took = f", took {lasted(duration_ns)}" if duration_ns >= _SLOW_NS else ""
    return f" ({sign}{lasted(abs(started_ns - turn_started_ns))}{took})"
