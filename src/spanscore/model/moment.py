"""Moments as people write them on a command line or in a URL: `24h` ago, or a date."""

from datetime import UTC, datetime

from spanscore.model.quantity import duration_ns


def moment_ns(text: str, now_ns: int) -> int:
    """Unix nanoseconds of a duration before `now_ns`, such as 24h, or of a time, which is UTC where
    it names no zone.

    Raises ValueError on anything else.

    >>> moment_ns("1m", 100 * 10**9), moment_ns("1970-01-01T00:00:40", 0)
    (40000000000, 40000000000)
    """
    try:
        return now_ns - duration_ns(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r}: give a duration such as 24h, or a time such as 2026-05-01T12:00"
        ) from None
    since_epoch = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return (
        since_epoch.days * 86400 + since_epoch.seconds
    ) * 10**9 + since_epoch.microseconds * 1000
