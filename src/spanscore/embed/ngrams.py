"""Embedding by hashed character n-grams."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from spanscore.lazy_imports import NDArray, np

DIMENSIONS: Final = 2048

OWN_ANSWERS: Final = (0.09, 0.34)
"""Similarity of a question and its own answer under this embedding: 80 % lie between, as
bench/coherence_scale.py has measured on 1,300 turns of an airline's customers with an agent. Of a
question and a foreign answer, 0.05 to 0.22.
"""

_SIZES: Final = (3, 5)
_WORD_BYTES: Final = 8
_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
_SLOT_SHIFT: Final = 64 - (2 * DIMENSIONS - 1).bit_length()
_HALF: Final = 32


class Ngrams:
    """Unit vectors of which n-grams a text holds; the same on every machine, in every process and
    version of Python.

    Two texts come out similar if they share words or parts of words; what the words mean is unknown
    to it.
    """

    name = "ngrams-1"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), 2048).

        Takes about 20 us a text, so that handing it to a thread would cost more.
        """
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, hashes in zip(rows, _hashes(texts), strict=True):
            _fill(row, hashes)
        return rows


def _hashes(texts: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """The hashed n-grams of each text; none of a text of nothing but white space.

    The n-grams are of the UTF-8 bytes: 3 and 5 letters of the Latin alphabet, about 2 of the
    Cyrillic, 1 and 2 Chinese characters, each time enough to tell one text from another.
    """
    words = [f" {' '.join(x.casefold().split())} " for x in texts]
    encoded = [x.encode("utf-8", "surrogatepass") for x in words]
    data = b"".join(encoded)
    masks, (first, half, second, shift) = _constants()
    # Overlapping 64-bit words, one from each byte on: an n-gram is a word's low bytes, so nothing
    # has to be gathered.
    windows = np.ndarray((len(data),), "<u8", data + bytes(_WORD_BYTES), strides=(1,))
    of_sizes = [(size, windows & mask) for size, mask in zip(_SIZES, masks, strict=True)]
    parts, ends, end = [windows[:0]], [0], 0
    for text in encoded:
        start, end = end, end + len(text)
        of_text = [grams[start : max(end - size + 1, start)] for size, grams in of_sizes]
        ends.append(ends[-1] + sum(map(len, of_text)))
        parts += of_text
    hashes = np.concatenate(parts)
    hashes *= first
    hashes ^= hashes >> half
    hashes *= second
    hashes >>= shift
    slots = hashes.view(np.int64)
    return (slots[start:end] for start, end in pairwise(ends))


def _fill(row: NDArray[np.float32], hashes: NDArray[np.int64]) -> None:
    """Write the vector of the n-grams with these hashes into `row`, which is all zeros.

    A hash is a dimension and a sign (the hashing trick: Weinberger et al., 2009, so that collisions
    cancel out on the mean) and counts once, however often it is there, so that frequent words do
    not drown the telling ones; where n-grams collide, the more frequent counts.
    """
    # The top bit of a slot is the sign: the lower half of the slots counts up, the upper half down.
    counts = np.bincount(hashes, minlength=2 * DIMENSIONS)
    signs = counts[:DIMENSIONS] - counts[DIMENSIONS:]
    length = math.sqrt(np.count_nonzero(signs))
    if length:
        row[:] = np.sign(signs, out=signs)
        row *= np.float32(1) / np.float32(length)


@cache
def _constants() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The masks of the sizes of n-grams, and what hashes are computed by, in numpy's type."""
    masks = [256**size - 1 for size in _SIZES]
    numbers = (_MULTIPLIERS[0], _HALF, _MULTIPLIERS[1], _SLOT_SHIFT)
    return np.array(masks, np.uint64), np.array(numbers, np.uint64)
