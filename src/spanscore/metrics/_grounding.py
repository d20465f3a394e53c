"""Whether the values an agent passed to a tool come from somewhere: what it was told, or what a tool had returned."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from spanscore.metrics._schema import choices
from spanscore.metrics._words import NUMBER_WORDS, content_words, holds, plain
from spanscore.model.json import Json

MAX_VALUES = 200
MAX_DEPTH = 16
_CODE_CHARS = 3
_SHORT_WORDS = 6
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")
_RELATIVE = (
    " today ",
    " tomorrow ",
    " yesterday ",
    " tonight ",
    " next ",
    " last ",
    " this week",
    " this month ",
    " ago ",
)
_MONTHS = (" jan", " feb", " mar", " apr", " may", " jun", " jul", " aug", " sep", " oct", " nov", " dec")
_SPELLED = {digits: f" {word} " for word, digits in NUMBER_WORDS.items()}


class Said:
    """The texts that a value may come from."""

    def __init__(self, raw: Sequence[str], texts: Sequence[str]) -> None:
        """`raw` are the texts as they were, `texts` the same as `plain` gives them; the first is the conversation."""
        self._raw = raw
        self._texts = texts

    def grounds(self, value: Json) -> bool:
        """Whether some text holds `value`, in this form or another.

        Booleans, null, 0 and 1, empty strings and codes of at most three letters are choices, not facts: always true.

        >>> said = Said(["Two seats on May 20th, at 1,250.50"], [plain("Two seats on May 20th, at 1,250.50")])
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
        return {float(x.replace(",", "")) for text in self._raw for x in _NUMBER.findall(text)}

    def _grounds_number(self, value: float) -> bool:
        if value in (0, 1):
            return True
        number = f" {value} " if isinstance(value, int) else plain(str(value))
        return self._holds(number) or self._holds(_SPELLED.get(str(value), "\0")) or abs(value) in self._numbers

    def _grounds_text(self, value: str) -> bool:
        phrase = plain(value)
        words = phrase.split()
        if not words or self._holds(f" {' '.join(words)} ") or self._holds(phrase):
            return True
        if len(words) == 1 and len(words[0]) <= _CODE_CHARS and words[0].isalpha():
            return True
        dated = _DATE.match(value)
        if dated:
            return self._holds_date(int(dated[2]), int(dated[3]))
        if _NUMBER.fullmatch(value):
            return self._grounds_number(float(value.replace(",", "")))
        return self._grounds_words(content_words(phrase))

    def _grounds_words(self, words: list[str]) -> bool:
        """More than half of a short text, a third of a longer one, which an agent words itself; all of its numbers."""
        held = [word for word in words if any(holds(text, word) for text in self._texts)]
        if any(word.isdigit() and word not in held for word in words):
            return False
        return 2 * len(held) > len(words) if len(words) <= _SHORT_WORDS else 3 * len(held) >= len(words)

    def _holds(self, phrase: str) -> bool:
        return any(phrase in text for text in self._texts)

    def _holds_date(self, month: int, day: int) -> bool:
        """Whether a text names this day of this month, or the conversation some day without its date ("tomorrow")."""
        months = (_MONTHS[month - 1] if 1 <= month <= len(_MONTHS) else "\0", f" {month} ", f" {month:02} ")
        days = [f" {day}{ending} " for ending in ("", "st", "nd", "rd", "th")] + [f" {day:02} "]
        return any(x in self._texts[0] for x in _RELATIVE) or any(
            any(x in text for x in months) and any(x in text for x in days) for text in self._texts
        )


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
