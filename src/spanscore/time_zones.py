"""Time zones by name; UTC needs no time-zone database."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo


def zone_of(name: str) -> tzinfo:
    """The time zone of a name such as Europe/Berlin. Raises ValueError where there is none."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # no name, a folder, or none of the database's
        raise ValueError(
            f"{name[:80]!r} is no time zone; write one such as Europe/Berlin"
        ) from None
