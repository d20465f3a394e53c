"""Embedding by hashed character n-grams."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        for row, text in zip(rows, texts, strict=True):
            _fill(row, text)
        return rows


def _fill(row: NDArray[np.float32], text: str) -> None:
    """Write the vector of `text` into `row`; a text of nothing but white space leaves zeros.

    The n-grams are of the UTF-8 bytes: 3 and 5 letters of the Latin alphabet, about 2 of the
    Cyrillic, 1 and 2 Chinese characters, each time enough to tell one text from another. Each
    n-gram is hashed to a dimension and a sign (the hashing trick: Weinberger et al., 2009, so that
    collisions cancel out on the mean) and counts once, however often it is there, so that frequent
    words do not drown the telling ones; where n-grams collide, the more frequent counts.
    """
    words = text.casefold().split()
    if not words:
        return
    data = f" {' '.join(words)} ".encode("utf-8", "surrogatepass")
    # Overlapping 64-bit words, one from each byte on: an n-gram is a word's low bytes, so nothing
    # has to be gathered.
    windows = np.ndarray(
        (len(data) - _SIZES[0] + 1,), "<u8", data + bytes(_WORD_BYTES), strides=(1,)
    )
    grams = [windows[: max(len(data) - size + 1, 0)] & np.uint64(256**size - 1) for size in _SIZES]
    hashes = np.concatenate(grams)
    hashes *= np.uint64(_MULTIPLIERS[0])
    hashes ^= hashes >> np.uint64(_HALF)
    hashes *= np.uint64(_MULTIPLIERS[1])
    hashes >>= np.uint64(_SLOT_SHIFT)
    # The top bit of a slot is the sign: the lower half of the slots counts up, the upper half down.
    counts = np.bincount(hashes.view(np.int64), minlength=2 * DIMENSIONS)
    signs = counts[:DIMENSIONS] - counts[DIMENSIONS:]
    np.sign(signs, out=row, casting="unsafe")
    length = math.sqrt(np.count_nonzero(signs))
    if length:
        row *= np.float32(1) / np.float32(length)
