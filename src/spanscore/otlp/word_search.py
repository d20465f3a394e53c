"""Search for many byte strings in one pass.

Wherever a byte string of seven bytes or more begins, it contains a whole word of four bytes that
begins at a multiple of four: one of its first four words. numpy finds the places in the body where
one of these words is, and only there the byte strings are compared.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WORD_BYTES: Final = 4
_BYTES_A_CANDIDATE: Final = 64
"""With more candidates than one in so many bytes, comparing each takes longer than searching for
each byte string.
"""

_PART_WORDS: Final = 4096
"""Words that are looked at together: what numpy makes of them stays in the CPU's cache, and is so
small that the memory for it is not taken from the system anew each time.
"""

_HASH_BITS: Final = 16
_HASH_FACTOR: Final = np.uint32(2_654_435_761)
"""2^32 divided by the golden ratio: Knuth's multiplicative hash."""


class WordSearch:
    """Byte strings of seven bytes or more, by the words that they contain.

    May be used from several threads.
    """

    def __init__(self, wanted: Sequence[bytes]) -> None:
        self._wanted = wanted
        self._by_word: dict[int, list[tuple[bytes, int]]] = {}
        for found in wanted:
            for offset in range(_WORD_BYTES):
                word = int.from_bytes(found[offset : offset + _WORD_BYTES], "little")
                self._by_word.setdefault(word, []).append((found, offset))
        self._is_candidate = np.zeros(2**_HASH_BITS, dtype=np.bool_)
        self._is_candidate[_hashes(np.array(list(self._by_word), dtype=np.uint32))] = True

    def is_any_in(self, body: bytes) -> bool:
        """Whether the body contains any of the byte strings."""
        words = np.frombuffer(body, dtype="<u4", count=len(body) // _WORD_BYTES)
        places = self._candidates(words)
        if len(places) > len(body) // _BYTES_A_CANDIDATE:
            return any(x in body for x in self._wanted)
        for place, word in zip(places, words[places].tolist(), strict=True):
            for found, offset in self._by_word.get(word, ()):
                start = place * _WORD_BYTES - offset
                if start >= 0 and body.startswith(found, start):
                    return True
        return False

    def _candidates(self, words: NDArray[np.uint32]) -> list[int]:
        """The places of the words that may be one of those that are searched for."""
        places: list[int] = []
        for first in range(0, len(words), _PART_WORDS):
            part = self._is_candidate.take(_hashes(words[first : first + _PART_WORDS]))
            places += (np.flatnonzero(part) + first).tolist()
        return places


def _hashes(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (words * _HASH_FACTOR) >> np.uint32(32 - _HASH_BITS)
