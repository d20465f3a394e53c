"""Words of a text, cheap to find and blind to case and punctuation; and how reasons count and list
things.
"""

import string
from collections.abc import Sequence

_OTHER_PUNCTUATION = (
    "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u2022\u00ab\u00bb\u00a0\n\r\t"
)
_SPACES = str.maketrans(dict.fromkeys(string.punctuation + _OTHER_PUNCTUATION, " "))
_ASCII = bytes(range(128)).decode().lower().translate(_SPACES).encode().ljust(256)

MAX_TEXT_CHARS = 100_000
"""Of any one text, no more than this is read: what a trace holds has no bound of its own."""

_STOP = (
    "a about above after again all also am an and any are as at be because been before being but by"
    " can could d did do does doing done for from give had has have having he her here hi hello him"
    " his how i if in into is it its just ll let like m make me more most my need no not of on once"
    " only or other our out over please re s same she should so some such t tell than thank thanks"
    " that the their them then there these they this those through to too us under until up use"
    " using ve very want was we were what when where which while who whom why will with would you"
    " your yes ok okay sure know show get"
)
STOP_WORDS = frozenset(_STOP.split())
"""English words that say nothing about what a text is about, with what apostrophes leave behind
("don t").
"""

_MAX_LISTED = 10


def plain(text: str) -> str:
    """`text` in lower case, each punctuation mark a space, and a space at both ends: " word " is
    then a whole word.

    >>> plain("Fly to New-York!")
    ' fly to new york  '
    """
    text = text[:MAX_TEXT_CHARS]
    if text.isascii():  # the same by a table of bytes, in a fifth of the time
        return f" {text.encode().translate(_ASCII).decode()} "
    return f" {text.lower().translate(_SPACES)} "


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
