"""Values that an agent was told, and what follows from them."""

import calendar
import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import combinations

_WORD = re.compile(r"[a-z0-9]+")
_ESCAPE = re.compile(r"\\+(?:[nrt\"/]|u[0-9a-fA-F]{4})")
_SIGNS = re.compile(r"[\W_]+")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_NUMBERED = re.compile(r"[a-z]+[a-z_\-#]*?0*([1-9]\d*|0)")
_PIECE = re.compile(r"[a-z]+|\d+")
_LEAST_FLAT = {True: 7, False: 6}
"""From how many signs on a value of digits alone, and another, is sought within longer words."""
_LEAST_PIECES = 3
_COUNTRY_DIGITS = range(1, 4)
_LEAST_NUMBER = 5
"""Digits of a number that is sought without what stands before it in more than the user's words."""

_MONTHS = {name.casefold(): n for n, name in enumerate(calendar.month_abbr) if name}
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/.]?(0[1-9]|1[0-2])[-/.]?(0[1-9]|[12]\d|3[01])(?!\d)")
_NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})([-/.])(\d{1,2})\2((?:19|20)?\d\d)(?![\d/])")
_WITHOUT_YEAR = re.compile(r"(?<![\d./-])(\d{1,2})/(\d{1,2})(?![\d/])")
_YEAR = r"(?:,?\s+((?:19|20)\d\d))?"
_MONTH_DAYS = re.compile(
    rf"\b{_MONTH}\s+(?:the )?({_DAY}(?:,?\s*(?:-|–|to|and|or|,|&|through)\s*(?:the )?{_DAY}(?!\d))*)"
    rf"\b(?!:){_YEAR}"
)
_DAY_MONTH = re.compile(
    rf"\b({_DAY}(?:\s*(?:-|–|to|and|or|,|&)\s*{_DAY})*)\s+(?:of )?{_MONTH}\b{_YEAR}"
)
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_WHOLE_MONTH = re.compile(
    rf"\b(?:in|of|this|next|last|early|late|mid|since|until|for|during|from|to)[ -]{_MONTH}\b"
    r"(?!\s+(?:the )?\d)"
)
_DAYS = [x.casefold() for x in calendar.day_name]
_WEEKDAY = re.compile(rf"\b({'|'.join(x[:3] for x in _DAYS)})(?:s|nes|rs|ur)?(?:day)?s?\b")
_COUNTS = {
    word: count
    for count, words in enumerate(
        (
            "",
            "a an the one next last past previous following coming",
            "two couple",
            "three few",
            *"four five six seven eight nine ten".split(),
        )
    )
    for word in words.split()
}
_SPANS = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(_COUNTS)})(?: more| of| full|-)?[ -]?(day|night|week|month|year)s?\b"
)
_AHEAD = re.compile(
    r"\b(?:later|after|forward|nights?|stay|(?:next|following) (?:day|week|month|year))\b"
)
_BACK = re.compile(r"\b(?:before|earlier|prior|previous (?:day|week|month|year))\b")
"""What says that a date is counted from another one than the present."""
_AFTER_NOW = frozenset("tomorrow tonight until future".split())
_BEFORE_NOW = frozenset("yesterday overdue since last past ago before late".split())
_PERIODS = re.compile(
    r"\b(this|next|last|past|previous|coming|following|the|of|a) "
    r"(week(?:end)?|fortnight|month|quarter|year)s?\b"
)
_NEAREST = {"week": 14, "weekend": 14, "fortnight": 15}
_ENGLISH = frozenset("the my is to and for i you on please of what with it at me a".split())

_NUMBER = re.compile(
    r"(?<![\w.:/#])(?<!\d-)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,12}(?:\.\d{1,6})?)(k\b)?(?![\w:/%]|-\d)"
)
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d+)?) ?(?:%|percent)")
_NUMBER_WORDS = re.compile(
    r"\b(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|million|half)\b"
)
_SMALL = frozenset(map(float, range(20)))
"""What is as often a count as an amount: it is no term of a sum."""
_MAX_TERMS = 12
"""Of more numbers in one text, such as a list of offers, nearly every amount is a sum."""
_CENTS = 100
_EARLIEST_CLOCK = 1980


def flat(text: str) -> str:
    """A text by its letters and digits alone, so that a number is found however it is grouped."""
    return _SIGNS.sub("", _common(text))


def _common(text: str) -> str:
    """A text in lower case, digits and letters of full width as the common ones."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def dates_in(text: str) -> Iterator[date]:
    """The dates of a text that have a year and are written in digits.

    >>> [str(x) for x in dates_in("2026-05-03T10:00 to 5/4/2026")]
    ['2026-05-03', '2026-05-04', '2026-04-05']
    """
    for year, month, day in _ISO.findall(text):
        yield from _real(year, month, day)
    for first, _, second, year in _NUMERIC.findall(text):
        full = year if len(year) > 2 else f"20{year}"
        yield from _real(full, first, second)
        yield from _real(full, second, first)


def _real(year: str, month: str, day: str) -> Iterator[date]:
    try:
        yield date(int(year), int(month), int(day))
    except ValueError:
        return


class Told:
    """What an agent was told so far, asked whether a value is among it or follows from it."""

    def __init__(self, user: Iterable[str], now_ns: int) -> None:
        self._texts: list[str] = []
        self._flat: list[str] = []
        self._words: set[str] = set()
        self._dates: set[date] = set()
        self._month_days: set[tuple[int, int]] = set()
        self._terms: list[frozenset[float]] = []
        self._shares: set[float] = set()
        self._amounts: set[float] = set()
        self._user = _common("\n".join(user))
        self._user_words = set(_WORD.findall(self._user))
        self._counts = {_count(x) for x in self._user_words if x in _COUNTS or len(x) == 1 and x.isdigit()}
        self._now: set[date] = set()
        now = datetime.fromtimestamp(now_ns / 1e9, UTC).date()
        if now.year >= _EARLIEST_CLOCK:
            self._now |= {now - timedelta(1), now, now + timedelta(1)}  # of any time zone

    def add(self, text: str, *, has_now: bool = False, is_said: bool = False) -> None:
        """Add a text; one that `has_now` states the present date, where it states one."""
        text = _common(_ESCAPE.sub(" ", text))
        self._flat.append(_SIGNS.sub("", text))
        words = _WORD.findall(text)
        self._words.update(words)
        self._texts.append(f" {' '.join(words)} ")
        found = set(dates_in(text))
        self._dates |= found
        self._now |= found if has_now else set()
        self._month_days.update(_month_days(text))
        amounts = frozenset(_numbers(text))
        self._amounts |= amounts
        if is_said:
            self._shares.update(float(x) / 100 for x in _PERCENT.findall(text))
            terms = amounts - _SMALL
            if len(terms) <= _MAX_TERMS:
                self._terms.append(terms)

    def has_identifier(self, value: str) -> bool:
        """Whether an identifier was told: as it is; a number without what stands before it; an
        address, and what is joined of several words, by these.
        """
        value = _common(value)
        words = _WORD.findall(value)
        joined = "".join(words)
        if joined in self._words or any(f" {' '.join(words)} " in x for x in self._texts):
            return True
        if len(joined) >= _LEAST_FLAT[joined.isdigit()] and any(joined in x for x in self._flat):
            return True
        if _EMAIL.fullmatch(value):
            return self._words.issuperset(words)
        if value.startswith("+"):
            return any(any(joined[n:] in x for x in self._flat) for n in _COUNTRY_DIGITS)
        return self._has_parts(value, words, joined)

    def _has_parts(self, value: str, words: list[str], joined: str) -> bool:
        if joined.isdigit():
            return len(words) == 1 and joined.lstrip("0") in self._words - {""}
        if len(words) >= _LEAST_PIECES and self._words.issuperset(words):
            return True
        if self._user_words.issuperset(_PIECE.findall(value)):
            return True
        numbered = _NUMBERED.fullmatch(value)
        if numbered is None:
            return False
        known = self._words if len(numbered[1]) >= _LEAST_NUMBER else self._user_words
        return not known.isdisjoint((numbered[1], numbered[1].zfill(3)))

    def has_date(self, day: date) -> bool:
        """Whether a date was told, without its year too."""
        return day in self._dates | self._now or (day.month, day.day) in self._month_days

    def may_mean(self, day: date) -> bool:
        """Whether a date follows from what the user said relative to the present or a told date."""
        if _ENGLISH.isdisjoint(self._user_words):
            return True  # what is said in other languages is not read
        if str(day.day) in _ORDINAL.findall(self._user):
            return True
        if any(_MONTHS[x] == day.month for x in _WHOLE_MONTH.findall(self._user)):
            return True
        spans = [(_count(n), unit) for n, unit in _SPANS.findall(self._user)]
        if self._is_counted(day, spans):
            return True
        periods = {unit for _, unit in _PERIODS.findall(self._user)}
        days = {x[:3] for x in _WEEKDAY.findall(self._user)}
        if not self._now:
            return bool(spans or periods or days)
        return self._is_beside_now(day) or any(_is_near(day, x, periods, days) for x in self._now)

    def _is_counted(self, day: date, spans: list[tuple[int, str]]) -> bool:
        """Whether a date is so far from the present, or before or after another."""
        ahead, back = _AHEAD.search(self._user), _BACK.search(self._user)
        told = {x for x in self._dates if (ahead and x < day) or (back and x > day)}
        return any(
            _is_apart(day, x, count, unit, 0 if count == 1 or x in told else 1)
            for x in told | self._now
            for count, unit in spans
            if x in told or (count, unit) != (1, "day")  # that is called tomorrow
        )

    def _is_beside_now(self, day: date) -> bool:
        """Whether a date is the next day, or the last, where the user speaks of such."""
        ahead = timedelta(1 - _AFTER_NOW.isdisjoint(self._user_words))
        behind = timedelta(1 - _BEFORE_NOW.isdisjoint(self._user_words))
        return any(x - behind <= day <= x + ahead for x in self._now)

    def has_amount(self, amount: float, counts: frozenset[int]) -> bool:
        """Whether an amount was told, or is a sum or a difference of two in one text, so many times
        one as there are things, or a told share.
        """
        if _NUMBER_WORDS.search(self._user):
            return True
        wanted = round(amount, 2)
        if _is_among(wanted, self._amounts):
            return True
        if wanted * _CENTS in self._amounts or wanted / _CENTS in self._amounts - _SMALL:
            return True
        factors = self._counts | counts | {y for x in self._shares for y in (x, 1 - x, 1 + x)}
        if any(_is_among(wanted, (a * x for x in factors)) for a in self._amounts):
            return True
        pairs = (pair for terms in self._terms for pair in combinations(terms, 2))
        return any(_is_among(wanted, (a + b, abs(a - b))) for a, b in pairs)


def _month_days(text: str) -> Iterator[tuple[int, int]]:
    """The days of months in a text, however they are written but for their year."""
    for found in _MONTH_DAYS.finditer(text):
        yield from ((_MONTHS[found[1]], int(x)) for x in re.findall(r"\d+", found[2]))
    for found in _DAY_MONTH.finditer(text):
        yield from ((_MONTHS[found[4]], int(x)) for x in re.findall(r"\d+", found[1]))
    for first, second in _WITHOUT_YEAR.findall(text):
        yield int(first), int(second)
        yield int(second), int(first)


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word]


def _is_apart(day: date, other: date, count: int, unit: str, tolerance: int) -> bool:
    """Whether so many days, weeks, months or years lie between two dates."""
    if unit in {"month", "year"}:
        months = count * (12 if unit == "year" else 1)
        apart = abs((day.year - other.year) * 12 + day.month - other.month)
        return apart == months and abs(day.day - other.day) <= tolerance
    wanted = count * (7 if unit == "week" else 1)
    return abs(abs((day - other).days) - wanted) <= tolerance


def _is_near(day: date, now: date, periods: set[str], days: set[str]) -> bool:
    """Whether a date is in a period about the present, or on a day of the week."""
    distance = abs((day - now).days)
    if distance <= max((_NEAREST.get(x, 0) for x in periods), default=0):
        return True
    if distance <= 14 and _DAYS[day.weekday()][:3] in days:
        return True
    months = abs((day.year - now.year) * 12 + day.month - now.month)
    is_edge = day.day == 1 or (day + timedelta(1)).day == 1
    return ("month" in periods and months <= 1) or (
        is_edge and not periods.isdisjoint(("quarter", "year")) and months <= 24
    )


def _numbers(text: str) -> Iterator[float]:
    for number, sign in _NUMBER.findall(text):
        value = float(number.replace(",", ""))
        yield round(value * 1000 if sign == "k" else value, 2)


def _is_among(wanted: float, amounts: Iterable[float]) -> bool:
    return any(abs(wanted - x) < 0.01 or wanted == round(x) for x in amounts)
