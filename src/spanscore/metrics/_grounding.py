"""Whether the values an agent passed to a tool come from somewhere: what it was told, or what a tool had returned."""

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from spanscore.metrics._schema import choices
from spanscore.metrics._words import content_words, holds, phrases, plain
from spanscore.model.json import Json

MAX_VALUES = 200
MAX_DEPTH = 16
_CODE_CHARS = 3
_SHORT_WORDS = 6
_BEFORE_CHARS, _AFTER_CHARS = 10, 20  # "20th of May", "September 20th"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
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
    """All that was said up to some point: what a value may come from."""

    def __init__(self, conversation: str, raw: str, text: str) -> None:
        """`raw` is all of it as it was, `text` the same as `plain` gives it; `conversation` the dialogue, plain."""
        self._conversation = conversation
        self._raw = raw
        self._text = text

    def then(self, raw: str, text: str) -> "Said":
        """With one more text."""
        return Said(self._conversation, f"{self._raw}\n{raw}", self._text + text)

    def grounds(self, value: Json) -> bool:
        """Whether what was said holds `value`, in this form or another.

        Booleans, null, 0 and 1, empty strings and codes of at most three letters are choices, not facts: always true.

        >>> text = "Two seats on May 20th, at 1,250.50"
        >>> said = Said(plain(text), text, plain(text))
        >>> [said.grounds(x) for x in (2, "2024-05-20", 1250.5, "Two Seats", 7, "window seats")]
        [True, True, True, True, False, False]
        """
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, int | float):
            return self._grounds_number(value)
        return not isinstance(value, str) or self._grounds_text(value)

    @cached_property
    def _numbers(self) -> set[float]:
        return {float(x.replace(",", "")) for x in _NUMBER.findall(self._raw)}

    def _grounds_number(self, value: float) -> bool:
        if value in {0, 1} or (isinstance(value, int) and holds(self._text, str(value))):
            return True
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
        held = [word for word in words if holds(self._text, word)]
        if len(words) > _SHORT_WORDS:
            return 3 * len(held) >= len(words)
        return 2 * len(held) > len(words) and all(word in held for word in words if word.isdigit())

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


@lru_cache(maxsize=64)  # one dialogue is asked about for every date in its calls
def _names_some_day(conversation: str) -> bool:
    return any(x in conversation for x in _RELATIVE)


@lru_cache(maxsize=512)
def _forms_of_date(month: int, day: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How `plain` texts write a month, and a day."""
    names = (_MONTHS[month - 1],) if 1 <= month <= len(_MONTHS) else ()
    ordinals = (f" {day}{ending} " for ending in ("", "st", "nd", "rd", "th"))
    return (*names, f" {month} ", f" {month:02} "), (*ordinals, f" {day:02} ")


def ungrounded(arguments: Json, said: Said, schema: Json) -> list[str]:
    """`path value` of each value that neither `said` nor the tool's own schema (its enums and defaults) holds."""
    lost = [(path, value) for path, value in _values(arguments, "", 0) if not said.grounds(value)]
    if lost and schema is not None:
        offered = set(choices(schema))
        lost = [(path, value) for path, value in lost if value not in offered]
    return [f"{path} {str(value)[:60]!r}".lstrip() for path, value in lost]


def _values(value: Json, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """The first 200 values inside `value`, each with where it is."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, member in list(value.items())[:MAX_VALUES]:
            yield from _values(member, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for item in value[:MAX_VALUES]:
            yield from _values(item, path, depth + 1)
    else:
        yield path, value
