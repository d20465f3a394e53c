"""What one trace repeats: read once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson

FoundT = TypeVar("FoundT")
_MAX_REMEMBERED = 1000
_MAX_RECENT = 32
"""Texts of which the values are kept: the attributes of a span or two."""

_MIN_CHARS = 32


class _Trace(threading.local):
    """What this thread has read of a trace, by what was read; None outside of a trace."""

    found: dict[tuple[object, str, bytes], Any] | None = None
    recent: dict[tuple[object, str], Any] | None = None


_trace = _Trace()


@contextmanager
def of_one_trace() -> Iterator[None]:
    """Read what a trace repeats once: each span of a conversation repeats what came before it."""
    _trace.found, _trace.recent = {}, {}
    try:
        yield
    finally:
        _trace.found = _trace.recent = None


def once(read: Callable[[Any, str], FoundT], item: object, role: str) -> FoundT:
    """What `read` makes of an item; within a trace equal items are read once.

    What is read must not be changed.
    """
    found = _trace.found
    if found is None:
        return read(item, role)
    try:
        key = read, role, orjson.dumps(item)
    except TypeError:  # integers beyond 64 bits, lone surrogates, bytes
        return read(item, role)
    if key in found:
        known: FoundT = found[key]
        return known
    made = read(item, role)
    if len(found) < _MAX_REMEMBERED:
        found[key] = made
    return made


def lately(read: Callable[[str], FoundT], text: str) -> FoundT:
    """What `read` makes of a text; within a trace a text that was read lately is not read again.

    What is read must not be changed.
    """
    recent = _trace.recent
    if recent is None or len(text) < _MIN_CHARS:
        return read(text)
    key = read, text
    if key in recent:
        known: FoundT = recent[key]
        return known
    made = read(text)
    if len(recent) >= _MAX_RECENT:
        recent.clear()
    recent[key] = made
    return made
