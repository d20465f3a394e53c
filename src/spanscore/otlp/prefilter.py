"""Search of raw requests for any of several strings."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanscore.otlp.word_search import WordSearch

_SMALL_BYTES: Final = 4096
"""Bodies up to this size are searched for one byte string after the other: nothing is faster
there.
"""

_LONG_BYTES: Final = 7
"""The least that a byte string has to have for `WordSearch`."""


class Prefilter:
    """Byte strings of which a request is to contain one. May be used from several threads."""

    def __init__(self, wanted: Iterable[bytes]) -> None:
        """Of those with fewer than seven bytes, the first ones are searched for first."""
        self._wanted = _without_redundant(wanted)
        self._short = tuple(x for x in self._wanted if len(x) < _LONG_BYTES)

    def passes(self, body: bytes) -> bool:
        """Whether the body contains any of the byte strings.

        >>> Prefilter([b"gen_ai.", b"traceloop."]).passes(b"...traceloop.span.kind...")
        True
        """
        if len(body) <= _SMALL_BYTES:
            return any(x in body for x in self._wanted)
        return any(x in body for x in self._short) or self._long.is_any_in(body)

    @cached_property
    def _long(self) -> "WordSearch":
        from spanscore.otlp.word_search import WordSearch  # noqa: PLC0415 - numpy, which small bodies do not need

        return WordSearch([x for x in self._wanted if len(x) >= _LONG_BYTES])


def _without_redundant(wanted: Iterable[bytes]) -> tuple[bytes, ...]:
    """Each once and in their order, without those that contain another one: where they are, the
    other one is.
    """
    once = tuple(dict.fromkeys(wanted))
    return tuple(x for x in once if not any(y in x for y in once if y != x))
