"""Times as a transcript gives them: the turn's start in UTC, and each step's distance from it."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_NS = 946_684_800 * 10**9  # 2000: what is before comes from a clock that was never set
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


def offset(at_ns: int | None, started_ns: int) -> str:
    """How long after the turn's start a step began, in brackets, with a space before it; "" where nobody knows.

    >>> offset(3_200_000_000, 2_000_000_000), offset(None, 0)
    (' (+1.2 s)', '')
    """
    if at_ns is None or at_ns <= 0 or started_ns <= 0:
        return ""
    sign = "+" if at_ns >= started_ns else "-"
    return f" ({sign}{lasted(abs(at_ns - started_ns))})"
