"""Words of a text as the rules judge compares them: cheap to find, blind to case, punctuation and endings."""

import string
from collections.abc import Sequence
from functools import lru_cache

_OTHER_PUNCTUATION = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u2022\u00ab\u00bb\u00a0\n\r\t"
_SPACES = str.maketrans(dict.fromkeys(string.punctuation + _OTHER_PUNCTUATION, " "))
_ASCII = bytes(range(128)).decode().lower().translate(_SPACES).encode().ljust(256)

MAX_TEXT_CHARS = 100_000
"""Of any one text, no more than this is read: what a trace holds has no bound of its own."""

_STOP = (
    "a about above after again all also am an and any are as at be because been before being but by can could d did do "
    "does doing done for from give had has have having he her here hi hello him his how i if in into is it its just ll "
    "let like m make me more most my need no not of on once only or other our out over please re s same she should so "
    "some such t tell than thank thanks that the their them then there these they this those through to too us under "
    "until up use using ve very want was we were what when where which while who whom why will with would you your "
    "yes ok okay sure know show get"
)
STOP_WORDS = frozenset(_STOP.split())
"""English words that say nothing about what a text is about, with what apostrophes leave behind ("don t")."""

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS.split())}
"""Spelled numbers up to twenty, and their digits."""
DIGIT_WORDS = {digits: word for word, digits in NUMBER_WORDS.items()}
"""The same the other way round."""

_ENDINGS = ("ing", "ies", "es", "ed", "s")
STEM_CHARS = 5
"""No stem is longer."""
_LEAST_STEM_CHARS = 3
_MAX_LISTED = 10


def plain(text: str) -> str:
    """`text` in lower case, each punctuation mark a space, and a space at both ends: " word " is then a whole word.

    >>> plain("Fly to New-York!")
    ' fly to new york  '
    """
    text = text[:MAX_TEXT_CHARS]
    if text.isascii():  # the same by a table of bytes, in a fifth of the time
        return f" {text.encode().translate(_ASCII).decode()} "
    return f" {text.lower().translate(_SPACES)} "


def content_words(plain_text: str) -> list[str]:
    """The words of a `plain` text that are no stop words nor single letters, each once, in order.

    >>> content_words(plain("Book me a flight to Rome, a cheap flight."))
    ['book', 'flight', 'rome', 'cheap']
    """
    return [
        word
        for word in dict.fromkeys(plain_text.split())
        if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())
    ]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The beginning that a word shares with its other forms: its ending off, at most five letters.

    >>> [stem(x) for x in ("flights", "booking", "booked", "reservation", "2024")]
    ['fligh', 'book', 'book', 'reser', '2024']
    """
    if not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM_CHARS:
            word = word[: -len(ending)]
            break
    return word[:STEM_CHARS]


@lru_cache(maxsize=8192)
def _forms(word: str) -> tuple[str, ...]:
    """What to look for in a `plain` text to find some form of `word`, or a number that is written in the other way."""
    if not word.isalpha():
        return (f" {word} ", *(f" {spelled} " for spelled, digits in NUMBER_WORDS.items() if digits == word))
    number = NUMBER_WORDS.get(word)
    return (f" {stem(word)}",) if number is None else (f" {word} ", f" {number} ")


def holds(plain_text: str, word: str) -> bool:
    """Whether a `plain` text holds some form of `word`, or a number that is written in the other way.

    >>> holds(plain("Two flights, 12 seats"), "2"), holds(plain("Two flights"), "flight")
    (True, True)
    """
    forms = _forms(word)
    return forms[0] in plain_text or (len(forms) > 1 and forms[1] in plain_text)


def held(words: list[str], plain_text: str) -> list[str]:
    """Those of `words` that `plain_text` holds.

    >>> held(["flight", "hotel"], plain("Two flights"))
    ['flight']
    """
    return [word for word in words if holds(plain_text, word)]


def share_held(words: list[str], plain_text: str) -> float:
    """The share of `words` that `plain_text` holds, 1.0 for no words."""
    return len(held(words, plain_text)) / len(words) if words else 1.0


def counted(count: int, thing: str) -> str:
    """A number of things, in words for a reason.

    >>> counted(1, "call"), counted(2, "call")
    ('1 call', '2 calls')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def listed(parts: Sequence[str]) -> str:
    """The first ten of `parts`, and how many more there are: a reason is for reading.

    >>> listed(["one", "two"]), listed(["x"] * 12)[-12:]
    ('one; two', 'x; x; 2 more')
    """
    more = len(parts) - _MAX_LISTED
    return "; ".join(parts) if more <= 0 else "; ".join([*parts[:_MAX_LISTED], f"{more} more"])


def phrases(text: str) -> tuple[str, ...]:
    r"""A list of phrases, one a line, as `plain` texts hold them.

    >>> phrases("can't\nI'm sorry")
    (' can t ', ' i m sorry ')
    """
    return tuple(plain(line) for line in text.strip().splitlines())


def holds_any(plain_text: str, sought: tuple[str, ...]) -> bool:
    """Whether a `plain` text holds one of the `phrases` that are sought."""
    return any(map(plain_text.__contains__, sought))
