"""Durations and sizes as a configuration writes them: `10s`, `1h30m`, `64MiB`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_UNIT_BYTES = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|kB|MB|GB|)")


def duration_ns(text: Any) -> int:
    """Nanoseconds of a duration as the collector writes it. Raises ValueError on anything else.

    >>> duration_ns("1m30s")
    90000000000
    """
    if text in (0, "0"):
        return 0
    parts = _DURATION.findall(text) if isinstance(text, str) else []
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(
            f"{text!r} is no duration: write a number and a unit, such as 200ms, 10s, 5m or 24h"
        )
    return round(sum(float(number) * _UNIT_NS[unit] for number, unit in parts))


def size_bytes(text: Any) -> int:
    """Bytes of a size. Raises ValueError on anything else.

    >>> size_bytes("4MiB")
    4194304
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _BYTES.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ValueError(
            f"{text!r} is no size: write a number of bytes, or a number and KiB, MiB or GiB"
        )
    return round(float(match[1]) * _UNIT_BYTES[match[2]])


def duration_text(duration: int) -> str:
    """The shortest way to write `duration` (nanoseconds) that `duration_ns` reads back.

    >>> duration_text(90_000_000_000)
    '90s'
    """
    if duration == 0:
        return "0"
    unit = next(u for u in ("d", "h", "m", "s", "ms", "us", "ns") if duration % _UNIT_NS[u] == 0)
    return f"{duration // _UNIT_NS[unit]}{unit}"


def size_text(size: int) -> str:
    """The shortest way to write `size` (bytes) that `size_bytes` reads back.

    >>> size_text(4 * 2**20)
    '4MiB'
    """
    unit = next((u for u in ("GiB", "MiB", "KiB") if size and size % _UNIT_BYTES[u] == 0), "")
    return f"{size // _UNIT_BYTES[unit]}{unit}"


Duration = Annotated[
    int,
    BeforeValidator(duration_ns),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["200ms", "10s", "5m", "24h"]}),
]
"""A configuration field that is written as a duration and read as integer nanoseconds."""

ByteSize = Annotated[
    int,
    BeforeValidator(size_bytes),
    PlainSerializer(size_text, return_type=str),
    WithJsonSchema({"type": ["integer", "string"], "examples": ["4MiB", "1GiB"]}),
]
"""A configuration field that is written as a size and read as integer bytes."""
