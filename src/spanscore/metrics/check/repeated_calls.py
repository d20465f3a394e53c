"""Repeated calls: was the same asked again in vain?"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from spanscore.metrics.check._check import (
    MAX_FINDINGS,
    Check,
    Evidence,
    Finding,
    not_applicable,
    not_recorded,
    user_texts,
)
from spanscore.model.json import dumps, hides_values
from spanscore.model.score import Skip
from spanscore.model.tool_names import is_polled, only_reads, varies
from spanscore.model.trace import ToolCall
from spanscore.threads import cached_property

_SAME_RESULT = 3
_SAME_ERROR = 3
_PASSING_ERRORS = 6
_UNKNOWN_RESULTS = 6
_UNKNOWN = ""
"""The outcome of a call whose result was not recorded."""
_PASSING = re.compile(
    r"time.?out|timed.out|unavailable|overloaded|rate.?limit|too many requests|connection|"
    r"temporar|\b(?:408|429|5\d\d)\b",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"pending|running|progress|processing|queued|waiting|not (?:yet"
    r" )?ready|in_progress|scheduled|building|starting|"
    r"in bearbeitung|läuft|wartet|ausstehend|en cours|en attente|"
    r"en proceso|en curso|pendiente|in corso|"
    r"处理中|正在处理|待处理|进行中|排队中|正在排队|等待|処理中|実行中|待機中|保留中",
    re.IGNORECASE,
)
_WITHOUT_END = re.compile(
    r"\b(?:(?:again and|over and) (?:again|over)|repeatedly|repeat (?:it|this|that)|"
    r"variations?|variants?|periodically|every (?:few |other |\d+ )?(?:seconds?|minutes?|hours?)|"
    r"jede (?:minute|stunde|sekunde)|cada (?:minuto|hora)|chaque (?:minute|heure)|"
    r"ogni (?:minuto|ora)|"
    r"keep (?:on )?(?:trying|checking|asking|calling|polling|looking|refreshing|searching|sending)|"
    r"until (?:it|i|you|they|he|she|we|there|one|something|done|ready|finished)|"
    r"immer wieder|wiederholt|mehrmals|bis (?:es|er|sie|ich|du|wir|man|fertig)|"
    r"una y otra vez|varias veces|hasta que|encore et encore|plusieurs fois|jusqu['\u2019]à ce que|"
    r"più volte|finché)\b|多次|反复|直到.{0,10}为止|何度も|何回も|繰り返し|るまで"
)
_NUMBER_WORDS = (
    "three drei tres trois tre 三|four vier cuatro quatre quattro 四|five fünf cinco cinq cinque 五"
    "|six sechs seis 六|seven sieben siete sept sette 七|eight acht ocho huit otto 八"
    "|nine neun nueve neuf nove 九|ten zehn diez dix dieci 十"
)
_NUMBERS = {
    word: value for value, words in enumerate(_NUMBER_WORDS.split("|"), 3) for word in words.split()
} | {"thrice": 3, "several": 5, "dozen": 12}
_LATIN = "|".join(sorted((x for x in _NUMBERS if x[0].isascii()), key=len, reverse=True))
_MEASURES = (
    r"(?:days?|hours?|hrs|minutes?|mins|seconds?|secs|weeks?|months?|years?|nights?|euros?|dollars?|"
    r"pounds?|cents?|bucks?|persons?|guests?|adults?|seats?|miles|meters|metres|percents?|stars?|"
    r"tage?n?|stunden?|minuten|sekunden|wochen?|monaten?|jahren?|nächten?|personen|gästen?|"
    r"d[ií]as|horas|minutos|semanas|meses|años|personas|noches|jours|heures|semaines|mois|nuits|"
    r"personnes|for|from|to|of|at|in|on|by|and|or|with|the|my|always|please|this|was|his|its|has|does|yes|plus|less|across|thanks)\b"
)
_TIMES = re.compile(  # three times, dreimal, 3x, 三次
    rf"\b(thrice)\b|\b(\d{{1,2}}|{_LATIN})"
    r"(?:(?: more)? times| ?mal| ?x(?! ?\d)| veces| fois| volte)\b"
    r"|(?<!第)(\d{1,2}|[三四五六七八九十]) ?(?:[次遍]|回(?!答))",
    re.IGNORECASE,
)
_THINGS = re.compile(  # 3 reminders, drei Erinnerungen, 三个提醒
    rf"\b(\d{{1,2}}|(?i:{_LATIN})) (?:"
    rf"(?:(?!{_MEASURES})[a-zß-ÿ]{{2,20}} )?(?!{_MEASURES})[a-zß-ÿ]{{3,20}}s\b|"
    rf"(?:[a-zß-ÿ]{{2,20}}e[nrs]? )?(?!(?i:{_MEASURES}))"
    r"[A-ZÄÖÜ][a-zß-ÿ]{2,30}[enrs]\b(?! [A-ZÄÖÜ]))"
    r"|(?<!第)(\d{1,2}|[三四五六七八九十]) ?(?:个(?!人|月|小时|星期)|[条封张份件杯只本通つ個枚])"
)
_DIGITS = re.compile(r"\d+")
_MAX_REQUEST_CHARS = 20_000
_MAX_NUMBERS = 100
_MAX_TEXT_CHARS = 2_000


class _Wanted:
    """How many times the user wants something done, and to how many things."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    @cached_property
    def times(self) -> frozenset[int]:
        return _numbers(_TIMES, self._texts)

    @cached_property
    def things(self) -> frozenset[int]:
        return _numbers(_THINGS, self._texts)


@dataclass(frozen=True)
class RepeatedCalls(Check):
    """Whether one and the same call, arguments and all, was made three times or more with one and
    the same outcome.

    Left out is what is repeated for good reason: tools that by their names wait, poll, step, draw
    at random or read a clock or sensor, results that say that something is under way, what brought
    another result later on, calls between which another tool, that does not only look something up
    by its name, returned, and calls of different agents. Where the user says how many times, or, of
    a tool that may change something, to how many things ("three times", "send 4 reminders"), only
    more calls than that are found. Nothing is found where the user wants a repetition without such
    a number ("again and again", "until it is done"). An error that may pass by itself (a time-out,
    a 429 or 5xx), and a call whose results were not recorded, is found from the sixth time on.

    >>> RepeatedCalls.needs
    ('tool_calls',)
    """

    name: ClassVar[str] = "check.repeated_calls"
    summary: ClassVar[str] = "Were calls not repeated unchanged, again and again, to no end?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    weighs: ClassVar[tuple[str, ...]] = ("user_input", "history")
    fine: ClassVar[str] = "No call was repeated unchanged to no end."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        if len(evidence.calls) < _SAME_RESULT:
            return not_applicable(f"Fewer than {_SAME_RESULT} calls were made.")
        if all(call.arguments is None for call in evidence.calls):
            return not_recorded("the arguments of any call")
        texts = [text[:_MAX_REQUEST_CHARS] for text in user_texts(evidence.trace)]
        if any(_WITHOUT_END.search(text.lower()) for text in texts):
            return not_applicable("The user may have asked for a repetition.")
        made = Counter(map(_identity, evidence.calls))
        if max(made.values()) < _SAME_RESULT:
            return []
        found = list(islice(_repeated(evidence.calls, _Wanted(texts)), MAX_FINDINGS))
        if not found and _may_be_repeated(evidence.calls):
            return not_recorded("the results of calls that were made several times")
        return found


def _may_be_repeated(calls: tuple[ToolCall, ...]) -> bool:
    """Whether a call whose results were not recorded was made so often that these would decide."""
    unknown = Counter(_identity(call) for call in calls if _outcome(call) == _UNKNOWN)
    return any(count >= _SAME_RESULT for count in unknown.values())


def _numbers(pattern: re.Pattern[str], texts: list[str]) -> frozenset[int]:
    """The numbers before what a pattern finds in a user's words."""
    found = (x for text in texts for x in islice(pattern.finditer(text), _MAX_NUMBERS))
    words = {next(filter(None, x.groups())).casefold() for x in found}
    return frozenset(int(x) if x.isdecimal() else _NUMBERS[x] for x in words)


def _repeated(calls: tuple[ToolCall, ...], wanted: _Wanted) -> Iterator[Finding]:
    # by what was asked: the outcome, and the calls that had it in a row
    runs: dict[str, tuple[str, list[int]]] = {}
    for place, call in enumerate(calls):
        identity, outcome = _identity(call), _outcome(call)
        if call.error is None and not only_reads(call.name):
            runs = {key: run for key, run in runs.items() if key == identity}
        if outcome is None:
            runs.pop(identity, None)
            continue
        before, places = runs.get(identity, (outcome, []))
        runs[identity] = (outcome, [*places, place] if before == outcome else [place])
        if len(runs[identity][1]) == _least(call, wanted) and not _goes_on(
            calls, place, identity, outcome
        ):
            numbers = ", ".join(str(x + 1) for x in runs[identity][1])
            text = f"the same call as before (calls {numbers}), {_came_to(call)}"
            yield Finding.of_call(place, call, text)


def _came_to(call: ToolCall) -> str:
    if call.error:
        return "each time with the same error"
    return "each time with the same result" if call.returned else "with no result recorded"


def _least(call: ToolCall, wanted: _Wanted) -> int:
    """From how many times on a call is repeated too often; 0: never.

    What the user wants several times may be done so often, and what may change something as often
    as there are things.
    """
    if call.error is not None:
        passes = _PASSING.search(call.error[:_MAX_TEXT_CHARS])
        return max([_PASSING_ERRORS if passes else _SAME_ERROR, *(x + 1 for x in wanted.times)])
    if (
        is_polled(call.name)
        or varies(call.name)
        or _UNDER_WAY.search(dumps(call.result)[:_MAX_TEXT_CHARS])
    ):
        return 0
    if not call.returned:
        return max([_UNKNOWN_RESULTS, *(x + 1 for x in wanted.times | wanted.things)])
    things = frozenset() if only_reads(call.name) else wanted.things - _given(call)
    return max([_SAME_RESULT, *(x + 1 for x in wanted.times | things)])


def _given(call: ToolCall) -> frozenset[int]:
    """The numbers in a call's arguments: of how many things one call is, as of a table's guests."""
    arguments = dumps(call.arguments)[:_MAX_TEXT_CHARS]
    return frozenset(int(x) for x in _DIGITS.findall(arguments) if len(x) < 3)


def _goes_on(calls: tuple[ToolCall, ...], place: int, identity: str, outcome: str) -> bool:
    """Whether the same call brought another result later on, so that asking again was worth it."""
    later = [
        call for call in calls[place + 1 :] if _identity(call) == identity and call.error is None
    ]
    return any(_outcome(call) not in {None, _UNKNOWN, outcome} for call in later)


def _identity(call: ToolCall) -> str:
    return dumps([call.agent, call.name, call.arguments], sort_keys=True)


def _outcome(call: ToolCall) -> str | None:
    """What a call came to; None where not even its arguments were recorded, or they are masked."""
    if hides_values(call.arguments):
        return None
    if call.error is not None:
        return f"error {call.error[:_MAX_TEXT_CHARS]}"
    if call.arguments is None:
        return None
    return dumps(call.result)[:_MAX_TEXT_CHARS] if call.returned else _UNKNOWN
