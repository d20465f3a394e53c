"""Values that an agent was told, and what follows from them."""

import calendar
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from math import ceil, floor

from spanscore.metrics.check._spelling import common, flat
from spanscore.threads import cached_property

_WORD = re.compile(r"[a-z0-9]+")
_ESCAPE = re.compile(r"\\+(?:[nrt\"/]|u[0-9a-fA-F]{4})")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_NUMBERED = re.compile(r"[a-z]+[a-z_\-#]*?0*([1-9]\d*|0)")
_LEAST_FLAT = {True: 7, False: 6}
"""From how many signs on a value of digits alone, and another, is sought within longer words."""
_LEAST_PIECES = 3
_COUNTRY_DIGITS = range(1, 4)
_LEAST_NUMBER = 5
"""Digits of a number that is sought without what stands before it in more than the user's words."""

_MONTHS = {name.casefold(): n for n, name in enumerate(calendar.month_abbr) if name}
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DAYS = rf"({_DAY}(?:,?\s?(?:[-&,\u2013]|to|and|or|through)\s?(?:the )?{_DAY}(?!\d)){{0,6}})"
_MONTH_DAYS = re.compile(rf"\b{_MONTH}\s(?:the )?{_DAYS}\b(?!:)")
_DAYS_MONTH = re.compile(rf"\b{_DAYS}\s(?:of )?{_MONTH}\b")
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)[-/.]?(0[1-9]|1[0-2])[-/.]?(0[1-9]|[12]\d|3[01])(?!\d)")
_NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})([-/.])(\d{1,2})\2((?:19|20)?\d\d)(?![\d/])")
_WITHOUT_YEAR = re.compile(r"(?<![\d./-])(\d{1,2})/(\d{1,2})(?![\d/])")
_DIGITS = re.compile(r"\d+")
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_WHOLE_MONTH = re.compile(
    rf"\b(?:in|of|this|next|last|early|late|mid|since|until|for|during|from|to)[ -]{_MONTH}\b"
    r"(?!\s+(?:the )?\d)"
)
_WEEKDAYS = [x.casefold() for x in calendar.day_abbr]
_WEEKDAY = re.compile(rf"\b({'|'.join(_WEEKDAYS)})(?:s|nes|rs|ur)?(?:day)?s?\b")
_COUNT_WORDS = (
    "a an the one next last past previous following coming|two couple|three few|four|five|six|seven"
    "|eight|nine|ten"
)
_COUNTS = {
    word: count for count, words in enumerate(_COUNT_WORDS.split("|"), 1) for word in words.split()
}
_COUNT = re.compile(rf"\b(\d|{'|'.join(_COUNTS)})\b(?![.)]\s)")  # no number of a list
_SPANS = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(_COUNTS)})(?: more| of| full|-)?[ -]?(day|night|week|month|year)s?\b"
)
_MAX_SPANS = 100
_AHEAD = re.compile(
    r"\b(?:later|after|forward|nights?|stay|(?:next|following) (?:day|week|month|year))\b"
)
_BACK = re.compile(r"\b(?:before|earlier|prior|previous (?:day|week|month|year))\b")
"""What says that a date is counted from another one than the present."""
_AFTER_NOW = frozenset(("future", "tomorrow", "tonight", "until"))
_BEFORE_NOW = frozenset(("ago", "before", "last", "late", "overdue", "past", "since", "yesterday"))
_PERIODS = re.compile(
    r"\b(?:this|next|last|past|previous|coming|following|the|of|a) "
    r"(week(?:end)?|fortnight|month|quarter|year)s?\b"
)
_NEAREST = {"week": 14, "weekend": 14, "fortnight": 15}
_TWO_WEEKS = 14
_ENGLISH_WORDS = "and at book by for from if it make my on please since the this to what with you"
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_EARLIEST_CLOCK = 1980

_NUMBER = re.compile(
    r"(?<![\w.#])(?<!\d[-:/])(\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,6})?|\d{1,12}(?:\.\d{1,6})?)"
    r"(k\b)?(?![\w%]|[-:/]\d)"
)
_PERCENT = re.compile(r"\b(\d{1,2}(?:\.\d{1,3})?) ?(?:%|percent)")
_NUMBER_WORDS = re.compile(
    r"\b(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|million|half)\b"
)
_SMALL = frozenset(map(float, range(20)))
"""What is as often a count as an amount: it is no term of a sum."""
_MAX_TERMS = 8
"""Of more numbers in one text, such as a list of offers, nearly every amount is a sum."""
_CENTS = 100


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


class _Known:
    """A text that an agent was told, and what is in it, each read when it is first asked for."""

    def __init__(self, text: str, is_conversation: bool) -> None:
        self._text = text
        self._is_conversation = is_conversation

    @cached_property
    def text(self) -> str:
        return common(_ESCAPE.sub(" ", self._text) if "\\" in self._text else self._text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def spaced(self) -> str:
        return f" {' '.join(_WORD.findall(self.text))} "

    @cached_property
    def flat(self) -> str:
        return flat(self.text)

    @cached_property
    def dates(self) -> frozenset[date]:
        return frozenset(dates_in(self.text))

    @cached_property
    def month_days(self) -> frozenset[tuple[int, int]]:
        return frozenset(_month_days(self.text))

    @cached_property
    def amounts(self) -> frozenset[float]:
        return frozenset(_numbers(self.text))

    @cached_property
    def sums(self) -> frozenset[float]:
        """The sums of two amounts that were said together."""
        terms = self.amounts - _SMALL
        if not self._is_conversation or len(terms) > _MAX_TERMS:
            return frozenset()
        return frozenset(round(sum(x), 2) for x in combinations(terms, 2))

    @cached_property
    def shares(self) -> frozenset[float]:
        if not self._is_conversation:
            return frozenset()
        return frozenset(float(x) / 100 for x in _PERCENT.findall(self.text))


class Grounds:
    """What an agent was told so far, asked whether a value is among it or follows from it."""

    def __init__(self, user: Iterable[str], now_ns: int, *, infers: bool = True) -> None:
        """`user` are the user's texts. Unless it `infers`, no date follows from them."""
        self._infers = infers
        self._known: list[_Known] = []
        self._has_now: list[_Known] = []
        self._user_texts = user
        self._now_ns = now_ns

    def add(self, text: str, *, has_now: bool = False, is_conversation: bool = False) -> None:
        """Add a text; one that `has_now` states the present date, where it states one."""
        known = _Known(text, is_conversation)
        self._known.append(known)
        if has_now:
            self._has_now.append(known)

    @cached_property
    def _today(self) -> set[date]:
        """The present day, in any time zone."""
        now = datetime.fromtimestamp(self._now_ns / 1e9, UTC).date()
        return {now + timedelta(x) for x in (-1, 0, 1)} if now.year >= _EARLIEST_CLOCK else set()

    @cached_property
    def _user(self) -> "_UserWords":
        return _UserWords(common("\n".join(self._user_texts)))

    @property
    def _dates(self) -> set[date]:
        return set[date]().union(*(x.dates for x in self._known))

    @property
    def _now(self) -> set[date]:
        return self._today.union(*(x.dates for x in self._has_now))

    def _is_known(self, word: str) -> bool:
        return any(word in x.text and word in x.words for x in self._known)

    def has(self, value: str) -> bool:
        """Whether a value was told as it is, but for case and signs."""
        words = _WORD.findall(common(value))
        joined = "".join(words)
        if self._is_known(joined):
            return True
        if len(words) != 1 and any(f" {' '.join(words)} " in x.spaced for x in self._known):
            return True
        return len(joined) >= _LEAST_FLAT[joined.isdigit()] and self._is_within(joined)

    def _is_within(self, joined: str) -> bool:
        return any(joined in x.flat for x in self._known)

    def has_identifier(self, value: str) -> bool:
        """Whether an identifier was told: as it is; a number without what stands before it; an
        address, and what is joined of several words, by these.
        """
        value = common(value)
        words = _WORD.findall(value)
        if self.has(value):
            return True
        if EMAIL.fullmatch(value):
            return all(map(self._is_known, words))
        joined = "".join(words)
        if value.startswith("+"):
            return any(self._is_within(joined[n:]) for n in _COUNTRY_DIGITS)
        return self._has_parts(value, words)

    def _has_parts(self, value: str, words: list[str]) -> bool:
        if len(words) >= _LEAST_PIECES and all(map(self._is_known, words)):
            return True
        numbered = _NUMBERED.fullmatch(value)
        if numbered is None:
            return False
        if len(numbered[1]) < _LEAST_NUMBER:
            return numbered[1] in self._user.words
        return self._is_known(numbered[1])

    def has_date(self, day: date) -> bool:
        """Whether a date was told, without its year too."""
        month_day = (day.month, day.day)
        return day in self._dates | self._now or any(month_day in x.month_days for x in self._known)

    def may_mean(self, day: date) -> bool:
        """Whether a date follows from what the user said relative to the present or a told date."""
        if not self._infers:
            return False
        user = self._user
        if not user.is_english or str(day.day) in user.ordinals or day.month in user.months:
            return True
        if any(self._is_counted(day, count, unit) for count, unit in user.spans):
            return True
        if not self._now:
            return user.is_relative
        ahead = timedelta(1 - _AFTER_NOW.isdisjoint(user.words))
        behind = timedelta(1 - _BEFORE_NOW.isdisjoint(user.words))
        return any(
            x - behind <= day <= x + ahead or _is_near(day, x, user.periods, user.weekdays)
            for x in self._now
        )

    def _is_counted(self, day: date, count: int, unit: str) -> bool:
        """Whether a date is so many days or months from the present, or after or before another."""
        if self._user.ahead and _shifted(day, -count, unit) in self._dates:
            return True
        if self._user.back and _shifted(day, count, unit) in self._dates:
            return True
        if (count, unit) == (1, "day"):
            return False  # that is called tomorrow
        other = {_shifted(day, -count, unit), _shifted(day, count, unit)}
        return not self._now.isdisjoint(other)

    def has_amount(self, amount: float, counts: Iterable[int]) -> bool:
        """Whether an amount was told, or is a sum of two in one text, a told share of one, or one
        times a count.
        """
        if _NUMBER_WORDS.search(self._user.text):
            return True
        wanted = round(amount, 2)
        amounts = set[float]().union(*(x.amounts for x in self._known))
        if wanted in amounts or any(wanted in x.sums for x in self._known):
            return True
        if wanted * _CENTS in amounts or wanted / _CENTS in amounts - _SMALL:
            return True
        if any(x and round(wanted / x, 2) in amounts for x in {*counts, *self._user.counts}):
            return True
        shares = {y for known in self._known for x in known.shares for y in (x, 1 - x, 1 + x)}
        return any(_is_share(wanted, x, amounts) for x in shares if x)


def _is_share(wanted: float, share: float, amounts: set[float]) -> bool:
    """Whether a share of one of the amounts, rounded to the cent, is what is wanted."""
    least, most = ((wanted + x) / share * _CENTS for x in (-0.005, 0.005))
    return any(x / _CENTS in amounts for x in range(ceil(least), floor(most) + 1))


class _UserWords:
    """What the user's words say of dates and numbers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = set(_WORD.findall(text))
        self.is_english = len(self.words & _ENGLISH) > 1  # other languages are not read
        self.ordinals = set(_ORDINAL.findall(text))
        self.months = {_MONTHS[x] for x in _WHOLE_MONTH.findall(text)}
        self.weekdays = {_WEEKDAYS.index(x) for x in _WEEKDAY.findall(text)}
        self.periods = set(_PERIODS.findall(text))
        spans = {(_count(n), unit) for n, unit in _SPANS.findall(text)}
        self.spans = sorted(spans)[:_MAX_SPANS]
        self.ahead = _AHEAD.search(text) is not None
        self.back = _BACK.search(text) is not None
        self.counts = {_count(x) for x in _COUNT.findall(text)}
        self.is_relative = bool(
            spans or self.periods or self.weekdays or self.words & (_AFTER_NOW | _BEFORE_NOW)
        )


def _month_days(text: str) -> Iterator[tuple[int, int]]:
    """The days of months in a text, however they are written but for their year."""
    for found in _MONTH_DAYS.finditer(text):
        yield from ((_MONTHS[found[1]], int(x)) for x in _DIGITS.findall(found[2]))
    for found in _DAYS_MONTH.finditer(text):
        yield from ((_MONTHS[found[2]], int(x)) for x in _DIGITS.findall(found[1]))
    for first, second in _WITHOUT_YEAR.findall(text):
        yield int(first), int(second)
        yield int(second), int(first)


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word]


def _shifted(day: date, count: int, unit: str) -> date:
    """The date so many days, weeks, months or years after another; itself where there is none."""
    try:
        if unit not in {"month", "year"}:
            return day + timedelta(count * (7 if unit == "week" else 1))
        months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
        year, month = months // 12, months % 12 + 1
        return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))
    except (ValueError, OverflowError):
        return day


def _is_near(day: date, now: date, periods: set[str], weekdays: set[int]) -> bool:
    """Whether a date is in a period about the present, or on a day of the week."""
    distance = abs((day - now).days)
    if distance <= max((_NEAREST.get(x, 0) for x in periods), default=0):
        return True
    if distance <= _TWO_WEEKS and day.weekday() in weekdays:
        return True
    months = abs((day.year - now.year) * 12 + day.month - now.month)
    is_edge = day.day == 1 or (day + timedelta(1)).day == 1
    is_of_year = is_edge and months <= 24 and not periods.isdisjoint(("quarter", "year"))
    return is_of_year or ("month" in periods and months <= 1)


def _numbers(text: str) -> Iterator[float]:
    for number, sign in _NUMBER.findall(text):
        value = float(number.replace(",", ""))
        yield round(value * 1000 if sign == "k" else value, 2)
