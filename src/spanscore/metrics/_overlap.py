"""How much of their words two texts have in common, also in scripts that put no spaces between
words.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from spanscore.metrics._words import MAX_TEXT_CHARS, STOP_WORDS

_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Tibetan, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese syllables
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_RUNS: Final = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")


class _Separators(dict[int, str | None]):
    """What `str.translate` makes of a character: punctuation, symbols and control characters become
    spaces.
    """

    def __missing__(self, point: int) -> str:
        character = chr(point)
        kept = character if unicodedata.category(character)[0] in "LMN" else " "
        self[point] = kept
        return kept


_SEPARATORS: Final = _Separators()


def normalized(text: str) -> str:
    """`text` in lower case, its compatibility characters and white space made alike: what is
    compared.

    >>> normalized(" Done,   42 €")
    'done, 42 €'
    """
    return _normalized(text[:MAX_TEXT_CHARS])


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the word sets of two `normalized` texts: words in both over words
    in either.

    Stop words and words of one letter do not count, unless neither text has another; 0.0 where
    neither has any word.

    >>> similarity("the refund is sent", "a refund was sent today")
    0.6666666666666666
    >>> similarity("yes, it is", "no, it is not")
    0.4
    """
    mine, others = words(one), words(other)
    if not mine and not others:
        mine, others = _all_words(one), _all_words(other)
    common = len(mine & others)
    union = len(mine) + len(others) - common
    return common / union if union else 0.0


@lru_cache(maxsize=64)  # a text is compared several times, within one session and so in short order
def words(text: str) -> frozenset[str]:
    """The distinct words of a `normalized` text, without English stop words and words of one
    letter.

    >>> sorted(words("i've sent the invoice to lyon; the invoice is 42 eur."))
    ['42', 'eur', 'invoice', 'lyon', 'sent']
    >>> sorted(words("天気は晴れ"))
    ['は晴', '天気', '晴れ', '気は']
    """
    return (
        frozenset(word for word in _all_words(text) if len(word) > 1 or _UNSPACED_RUN.match(word))
        - STOP_WORDS
    )


@lru_cache(maxsize=64)
def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _all_words(text: str) -> frozenset[str]:
    separated = text.translate(_SEPARATORS).split()
    if text.isascii():
        return frozenset(separated)
    found: set[str] = set()
    for word in separated:
        for run in _RUNS.finditer(word):
            found.update(_pairs(run[0]) if run[1] else (run[0],))
    return frozenset(found)


def _pairs(run: str) -> list[str]:
    """Pairs of neighbouring characters; a character that stands alone is one by itself."""
    return [run[place : place + 2] for place in range(max(len(run) - 1, 1))]
