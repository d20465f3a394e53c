"""Spellings of identifiers: with other signs, or as a user spells them out."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from spanscore.threads import cached_property

_DIGIT_WORDS = (
    "zero oh null cero zéro|one eins uno un|two zwei zwo dos deux|three drei tres trois"
    "|four vier cuatro quatre|five fünf cinco cinq|six sechs seis|seven sieben siete sept"
    "|eight acht ocho huit|nine neun nueve neuf"
)
_SIGNS = {
    word: str(digit)
    for digit, words in enumerate(_DIGIT_WORDS.split("|"))
    for word in words.split()
}
_ALPHABET_WORDS = (
    "alfa alpha bravo charlie delta echo foxtrot golf hotel india juliet juliett kilo lima mike"
    " november oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu"
)
_SIGNS |= {word: word[0] for word in _ALPHABET_WORDS.split()}
_TIMES = {"double": 2, "triple": 3}
_SIGN = rf"(?:{'|'.join(sorted(_SIGNS, key=len, reverse=True))}|[a-z]|\d{{1,20}})\b"
_BETWEEN = r"\W{1,3}(?:(?:and|then|dash|hyphen|minus|und|dann|et|bindestrich|guion|tiret)\W{1,3})?"
_SPELLED = re.compile(
    rf"(?<!['\u2019])\b(?:(?:double|triple) )?{_SIGN}"
    rf"(?:{_BETWEEN}(?:(?:double|triple) )?{_SIGN}){{2,39}}"
)
_CHINESE = re.compile(r"[〇零一二三四五六七八九]{4,40}")
_CHINESE_DIGITS = str.maketrans("〇零一二三四五六七八九", "00123456789")
_AS_IN = re.compile(r"\b([a-z]),?\s(?:as in|like|for|wie|comme|de|come|como)\s\1\w{1,15}")
_X_RAY = re.compile(r"\bx[- ]ray\b")
_WORD = re.compile(r"[^\W_]+")
_MAX_CHARS = 100_000
_MAX_RUNS = 50
_LEAST_SIGNS = 3
_NO_SIGN = re.compile(r"[\W_]+")


def common(text: str) -> str:
    """A text in lower case, digits and letters of full width as the common ones."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def flat(text: str) -> str:
    """A text by its letters and digits alone, so that a number is found however it is grouped."""
    return _NO_SIGN.sub("", common(text))


class Spellings:
    """What the user's texts spell; `were_needed` once an identifier may be one of them.

    >>> Spellings(["It is X as in X-ray, Echo, H, double four."]).may_be("xeh44")
    True
    >>> Spellings(["Plan B, for me."]).may_be("ord998877")
    False
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.were_needed = False

    def may_be(self, value: str) -> bool:
        """Whether something spelled makes up at least half of a value's letters and digits."""
        wanted = flat(value).replace("o", "0")
        found = any(
            (run in wanted and 2 * len(run) >= len(wanted)) or wanted in run for run in self._runs
        )
        self.were_needed |= found
        return found

    @cached_property
    def _runs(self) -> list[str]:
        runs = (run for text in self._texts for run in islice(_runs(text), _MAX_RUNS))
        return [x.replace("o", "0") for x in runs if len(x) >= _LEAST_SIGNS]


def _runs(text: str) -> Iterator[str]:
    """Each row of signs that a text spells."""
    text = text[:_MAX_CHARS].casefold()
    for found in _CHINESE.finditer(text):
        yield found[0].translate(_CHINESE_DIGITS)
    for found in _SPELLED.finditer(_AS_IN.sub(r"\1", _X_RAY.sub("xray", text))):
        yield "".join(_signs(found[0]))


def _signs(run: str) -> Iterator[str]:
    times = 1
    for word in _WORD.findall(run):
        if word in _TIMES:
            times = _TIMES[word]
        elif word in _SIGNS or len(word) == 1 or word.isdecimal():
            yield _SIGNS.get(word, word) * times
            times = 1
