"""Whether the values an agent passed to a tool come from somewhere: what it was told, or what a tool had returned."""

import re
import string
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from itertools import islice

from spanscore.metrics._vocabulary import Vocabulary
from spanscore.metrics._words import content_words, holds_any, phrases, plain
from spanscore.model.json import Json

MAX_VALUES = 200
MAX_DEPTH = 16
MAX_PLACES = 20_000
"""Places where a month may stand that are looked at, in all that was said."""
_NUMERIC = (int, float)
_NESTED = (dict, list)
_CODE_CHARS = 3
_SHORT_WORDS = 6
_BEFORE_CHARS, _AFTER_CHARS = 10, 20  # "20th of May", "September 20th"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DIGITS = tuple(string.digits)
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
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
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTH = re.compile(rf" (?=({'|'.join(_MONTHS)}|(?:0?[1-9]|1[0-2])(?= )))")
_DAY = re.compile(r" (?=(0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)? )")


class Said:
    """All that has been said so far, growing call by call: what a value may come from."""

    def __init__(self, conversation: str, background: str, raw: str) -> None:
        """`raw` is all that the agent was told, as it was; the others as `plain` gives them.

        `conversation` is the dialogue, `background` the rest, which is mostly the same in all traces of an agent.
        """
        self._conversation = conversation
        self._words = Vocabulary(_words_of(background))
        self._words.add(conversation)
        self._numbers: set[float] = set()
        self._dates: set[tuple[int, int]] = set()
        self._places = 0
        # Searched when a number or a date is first asked for, and then let go: each text once.
        self._uncounted = [raw]
        self._undated = [background, conversation]

    def add(self, raw: str, text: str) -> None:
        """Add what was said next, as it was and as `plain` gives it."""
        self._words.add(text)
        self._uncounted.append(raw)
        self._undated.append(text)

    def grounds(self, value: Json) -> bool:
        """Whether what was said holds `value`, in this form or another.

        Booleans, null, 0 and 1, empty strings and codes of at most three letters are choices, not facts: always true.

        >>> text = "Two seats on May 20th, at 1,250.50"
        >>> said = Said(plain(text), "", text)
        >>> [said.grounds(x) for x in (2, "2024-05-20", 1250.5, "Two Seats", 7, "window seats")]
        [True, True, True, True, False, False]
        """
        if isinstance(value, str):
            return self._grounds_text(value)
        if isinstance(value, bool) or not isinstance(value, _NUMERIC):
            return True
        return self._grounds_number(value)

    def _grounds_number(self, value: float) -> bool:
        if value in {0, 1} or (isinstance(value, int) and self._words.holds(str(value))):
            return True
        while self._uncounted:
            self._numbers.update(_numbers(self._uncounted.pop()))
        return abs(value) in self._numbers

    def _grounds_text(self, value: str) -> bool:
        phrase = plain(value)
        words = phrase.split()
        dated = _DATE.match(value)
        if dated is None or dated.end() < len(value):  # the parts of a date alone are numbers that stand anywhere
            if self._words.has_all(words):
                return True
            if len(words) == 1 and len(words[0]) <= _CODE_CHARS and words[0].isalpha():
                return True
        if dated:
            return self._holds_date(int(dated[1]), int(dated[2]))
        if _NUMBER.fullmatch(value):
            return self._grounds_number(float(value.replace(",", "")))
        return self._grounds_words(content_words(phrase))

    def _grounds_words(self, words: list[str]) -> bool:
        """More than half of a short text and all of its numbers; a third of a longer one, which agents word freely."""
        found = list(filter(self._words.holds, words))
        if len(words) > _SHORT_WORDS:
            return 3 * len(found) >= len(words)
        return 2 * len(found) > len(words) and all(word in found for word in words if word.isdigit())

    def _holds_date(self, month: int, day: int) -> bool:
        """Whether this day stands near this month somewhere, or the dialogue names a day without its date."""
        if _names_some_day(self._conversation):
            return True
        while self._undated and self._places <= MAX_PLACES:
            self._read_dates(self._undated.pop())
        return (month, day) in self._dates or self._places > MAX_PLACES

    def _read_dates(self, text: str) -> None:
        """Take down which days stand near which months; after `MAX_PLACES` any date may have been said."""
        places, dates = _dates(text)
        self._places += places
        self._dates |= dates


@lru_cache(maxsize=64)  # an agent's instructions are the same in all of its traces
def _dates(text: str) -> tuple[int, frozenset[tuple[int, int]]]:
    """How many places were looked at, and which (month, day) stand there."""
    places = 0
    dates: set[tuple[int, int]] = set()
    for found in islice(_MONTH.finditer(text), MAX_PLACES + 1):
        places += 1
        month = _MONTHS.get(found[1]) or int(found[1])
        window = text[max(0, found.start() - _BEFORE_CHARS) : found.start() + _AFTER_CHARS]
        dates.update((month, int(day)) for day in _DAY.findall(window))
    return places, frozenset(dates)


def _numbers(text: str) -> list[float]:
    if text.isascii() and not holds_any(text, _DIGITS):  # a search for each is faster than one for any
        return []
    return [float(x.replace(",", "")) for x in _NUMBER.findall(text)]


@lru_cache(maxsize=64)
def _words_of(background: str) -> frozenset[str]:
    return frozenset(background.split())


@lru_cache(maxsize=64)  # one dialogue is asked about for every date in its calls
def _names_some_day(conversation: str) -> bool:
    return holds_any(conversation, _RELATIVE)


def ungrounded(arguments: Json, said: Said, offered: Callable[[], Container[str]]) -> list[str]:
    """`path value` of each value that neither `said` nor what the tool's own schema offers holds.

    Of the values the first 200 count; `offered` is asked only where there is need.
    """
    values = islice(_values(arguments, "", 0), MAX_VALUES)
    lost = [(path, value) for path, value in values if not said.grounds(value)]
    if any(isinstance(value, str) for _, value in lost):
        own = offered()
        lost = [(path, value) for path, value in lost if value not in own]
    return [f"{path} {str(value)[:60]!r}".lstrip() for path, value in lost]


def _values(value: Json, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """The values inside `value`, each with where it is."""
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
