"""Whether the values an agent passed to a tool come from somewhere: what it was told, or what a tool had returned."""

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from spanscore.metrics._schema import choices
from spanscore.metrics._words import content_words, held, holds, holds_any, phrases, plain
from spanscore.model.json import Json

MAX_VALUES = 200
MAX_DEPTH = 16
_NUMERIC = (int, float)
_NESTED = (dict, list)
_CODE_CHARS = 3
_SHORT_WORDS = 6
_BEFORE_CHARS, _AFTER_CHARS = 10, 20  # "20th of May", "September 20th"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DIGITS = tuple(string.digits)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")
_RELATIVE = phrases("""
today
tonight
tomorrow
yesterday
this week
this weekend
next week
next weekend
next month
next day
day after
day before
day later
day earlier
days later
days earlier
last week
last month
monday
tuesday
wednesday
thursday
friday
saturday
sunday
""")
_MONTHS = (" jan", " feb", " mar", " apr", " may", " jun", " jul", " aug", " sep", " oct", " nov", " dec")


class Said:
    """All that has been said so far, growing call by call: what a value may come from."""

    def __init__(self, conversation: str, raw: str, text: str) -> None:
        """`raw` is all of it as it was, `text` the same as `plain` gives it; `conversation` the dialogue, plain."""
        self._conversation = conversation
        self._text = text
        self._numbers: set[float] = set()
        self._uncounted = [raw]  # searched for numbers when a number is asked for, and then let go

    def add(self, raw: str, text: str) -> None:
        """Add what was said next, as it was and as `plain` gives it."""
        self._uncounted.append(raw)
        self._text += text

    def grounds(self, value: Json) -> bool:
        """Whether what was said holds `value`, in this form or another.

        Booleans, null, 0 and 1, empty strings and codes of at most three letters are choices, not facts: always true.

        >>> text = "Two seats on May 20th, at 1,250.50"
        >>> said = Said(plain(text), text, plain(text))
        >>> [said.grounds(x) for x in (2, "2024-05-20", 1250.5, "Two Seats", 7, "window seats")]
        [True, True, True, True, False, False]
        """
        if isinstance(value, str):
            return self._grounds_text(value)
        if isinstance(value, bool) or not isinstance(value, _NUMERIC):
            return True
        return self._grounds_number(value)

    def _grounds_number(self, value: float) -> bool:
        if value in {0, 1} or (isinstance(value, int) and holds(self._text, str(value))):
            return True
        while self._uncounted:
            self._numbers.update(_numbers(self._uncounted.pop()))
        return abs(value) in self._numbers

    def _grounds_text(self, value: str) -> bool:
        phrase = plain(value)
        if phrase in self._text:
            return True
        words = phrase.split()
        if not words or (len(words) == 1 and len(words[0]) <= _CODE_CHARS and words[0].isalpha()):
            return True
        if f" {' '.join(words)} " in self._text:
            return True
        dated = _DATE.match(value)
        if dated:
            return self._holds_date(int(dated[2]), int(dated[3]))
        if _NUMBER.fullmatch(value):
            return self._grounds_number(float(value.replace(",", "")))
        return self._grounds_words(content_words(phrase))

    def _grounds_words(self, words: list[str]) -> bool:
        """More than half of a short text and all of its numbers; a third of a longer one, which agents word freely."""
        found = held(words, self._text)
        if len(words) > _SHORT_WORDS:
            return 3 * len(found) >= len(words)
        return 2 * len(found) > len(words) and all(word in found for word in words if word.isdigit())

    def _holds_date(self, month: int, day: int) -> bool:
        """Whether this day stands near this month somewhere, or the dialogue names a day without its date."""
        if _names_some_day(self._conversation):
            return True
        months, days = _forms_of_date(month, day)
        return any(x in window for name in months for window in self._around(name) for x in days)

    def _around(self, name: str) -> Iterator[str]:
        """What stands around `name`, wherever it occurs."""
        place = self._text.find(name)
        while place >= 0:
            yield self._text[max(0, place - _BEFORE_CHARS) : place + _AFTER_CHARS]
            place = self._text.find(name, place + 1)


def _numbers(text: str) -> list[float]:
    if text.isascii() and not holds_any(text, _DIGITS):  # a search for each is faster than one for any
        return []
    return [float(x.replace(",", "")) for x in _NUMBER.findall(text)]


@lru_cache(maxsize=64)  # one dialogue is asked about for every date in its calls
def _names_some_day(conversation: str) -> bool:
    return holds_any(conversation, _RELATIVE)


@lru_cache(maxsize=512)
def _forms_of_date(month: int, day: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How `plain` texts write a month, and a day."""
    names = (_MONTHS[month - 1],) if 1 <= month <= len(_MONTHS) else ()
    ordinals = (f" {day}{ending} " for ending in ("", "st", "nd", "rd", "th"))
    return (*names, f" {month} ", f" {month:02} "), (*ordinals, f" {day:02} ")


def ungrounded(arguments: Json, said: Said, schema: Json) -> list[str]:
    """`path value` of each value that neither `said` nor the tool's own schema (its enums and defaults) holds."""
    lost = [(path, value) for path, value in _values(arguments, "", 0) if not said.grounds(value)]
    if any(isinstance(value, str) for _, value in lost):
        offered = set(choices(schema))
        lost = [(path, value) for path, value in lost if value not in offered]
    return [f"{path} {str(value)[:60]!r}".lstrip() for path, value in lost]


def _values(value: Json, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """The first 200 values inside `value`, each with where it is."""
    if isinstance(value, dict):
        members = [(f"{path}.{key}" if path else key, x) for key, x in islice(value.items(), MAX_VALUES)]
    elif isinstance(value, list):
        members = [(path, x) for x in value[:MAX_VALUES]]
    else:
        yield path, value
        return
    for where, member in members if depth < MAX_DEPTH else ():
        if isinstance(member, _NESTED):
            yield from _values(member, where, depth + 1)
        else:
            yield where, member
