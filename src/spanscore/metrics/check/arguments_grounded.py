"""Arguments grounded: does each value come from somewhere?"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import ClassVar, NamedTuple

from spanscore.metrics.check._check import (
    MAX_FINDINGS,
    MAX_TEXT_CHARS,
    Check,
    Evidence,
    Finding,
    not_applicable,
    not_recorded,
    shown,
    user_texts,
)
from spanscore.metrics.check._grounds import EMAIL, Grounds, dates_in
from spanscore.metrics.check._spelling import Spellings
from spanscore.model.json import Json, dumps, hides_values, printed
from spanscore.model.score import Skip
from spanscore.model.tool_names import name_words
from spanscore.model.trace import AgentTrace, ToolCall

_IDENTIFIER = "identifier"
_ADDRESS = "address"
_DATE = "date"
_BIRTH_DATE = "date of birth"
_AMOUNT = "amount"
_MAX_VALUE_CHARS = 1_000
_SOURCES = frozenset(("history", "system_instructions", "retrieved", "user_input", "tool_calls"))
_MAX_VALUES = 200
_MAX_DEPTH = 8
_MAX_SOURCE_CHARS = 2_000_000
_IDENTIFIES_WORDS = (
    "account booking code confirmation customer flight id identifier ids iban invoice number order"
    " passport payment phone pnr reference reservation sku ticket tracking user username vin"
)
_IDENTIFIES = frozenset(_IDENTIFIES_WORDS.split())
_NAMES_ONE = frozenset(("iban", "id", "identifier", "ids", "pnr", "sku", "vin"))
"""Words at the end of the name of what is an identifier, however it looks."""
_CHOSEN_WORDS = (
    "body command content correlation description file filename folder idempotency language locale"
    " message model name nonce note page path prompt query request run script session sql subject"
    " summary temp text thread title trace url uuid version"
)
_CHOSEN = frozenset(_CHOSEN_WORDS.split())
_REGISTERED_WORDS = (
    "arxiv cas cik cpt cusip cve doi ean gene gtin iata icao icd imdb isbn isin iso issn lei orcid"
    " pmid snomed swift ticker upc wikidata"
)
_REGISTERED = frozenset(_REGISTERED_WORDS.split())
"""What public registers number, which models know by heart."""

_KNOWN_WORDS = (
    "airline airport area city color colour country currency hex hs http region state symbol"
)
_POSTAL = frozenset(("postal", "postcode", "zip", "zipcode"))
_OF_PERSONS_WORDS = "address address1 first firstname last lastname name street"
_OF_PERSONS = frozenset(_OF_PERSONS_WORDS.split())
"""Beside them a postal code is a person's; alone it is a place's, which everybody knows."""
_KNOWN = _REGISTERED | _POSTAL | frozenset(_KNOWN_WORDS.split())
"""What else has codes that everybody knows."""

_MEASURED_WORDS = (
    "amount average balance budget cost count date day fee limit max maximum min minimum month"
    " offset percent price quantity rate size sum time timestamp total volume weight year"
)
_MEASURED = frozenset(_MEASURED_WORDS.split())
"""What agents compute, where the name of an argument ends with it."""

_AMOUNTS_WORDS = "amount charge cost deposit fare fee payment price refund total"
_AMOUNTS = frozenset(_AMOUNTS_WORDS.split())
_BOUNDS_WORDS = "budget count high limit low max maximum min minimum number threshold"
_BOUNDS = frozenset(_BOUNDS_WORDS.split())
"""What an agent may choose, of amounts too."""
_LEAST_AMOUNT = 20
_BIRTH = frozenset(("birth", "birthdate", "birthday", "dob"))
_TELLS_TIME = frozenset(("clock", "current", "date", "datetime", "now", "time", "today"))

_CLIENTS_OWN = frozenset(("order", "ref", "reference", "token", "transaction"))
"""What has an id that the caller chooses, where its name begins with "client": client_order_id."""
_IDS = frozenset(("id", "ids", "identifier"))
_NO_AMOUNTS = _BOUNDS | _IDS
_CODES = frozenset(("code", "codes", "number", "numbers"))
_NAMING_WORDS = "add create generate insert make new open register save sign signup upload write"
_NAMING = frozenset(_NAMING_WORDS.split())
_ADDRESSES = re.compile(rf"{EMAIL.pattern}(?:[,;]\s?{EMAIL.pattern}){{0,20}}")
_OF_IDENTIFIER = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])#?[A-Za-z0-9][A-Za-z0-9_\-#]{3,63}")
_NUMBER = re.compile(r"#?\+?\d[\d \-]{3,30}\d")
_MONEY = re.compile(r"[$€£]?\s?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)")
_TIME_BEHIND = re.compile(r"[T ]\d{2}:?\d{2}.*")
_NO_IDENTIFIER = re.compile(
    r"\d+(?:[.,]\d+)?[-_ ]?[A-Za-z%°]{1,10}"  # 10km, 1080p, 3-day
    r"|(?:\d+[dhms]){1,4}|[a-z]{1,4}-?\d{1,3}[a-z]?"  # 2h30m, utf-8, h264, gpt-4o
    r"|[A-Za-z]+[_-]?v?\d{1,2}"  # python3, room_12, phase-2
    # weeks, quarters, dates
    r"|\d{4}-?[WwQq]\d{1,2}|[Qq][1-4][-_]?\d{4}|\d{4}-\d{2}(?:-\d{2})?(?:[Tt].*)?"
    # May-20-2024, 20-May-2024
    r"|[A-Za-z]{3,9}[-_]?\d{1,2}(?:[-_,]\d{2,4})?|\d{1,2}[-_][A-Za-z]{3,9}[-_]\d{2,4}"
)
_TELLING = re.compile(r"[\d@]")
"""What every value has that is looked at."""
_LEAST_DATE = len("1/1/1999")
_LIKE_A_DATE = re.compile(r"\d{4}[-/.]\d\d[-/.]\d\d|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d")
_DATE_IN_DIGITS = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


class _Value(NamedTuple):
    """A value that is looked at, and its argument."""

    argument: str
    text: str
    kind: str

    def is_grounded(self, grounds: Grounds, call: ToolCall) -> bool:
        """Whether a call's value was told or follows from what was."""
        if self.kind == _AMOUNT:
            members = call.arguments.values() if isinstance(call.arguments, dict) else ()
            counts = [len(x) for x in members if isinstance(x, list)]
            return grounds.has_amount(_number(self.text), counts)
        if self.kind not in {_DATE, _BIRTH_DATE}:
            return grounds.has_identifier(self.text)
        day = _TIME_BEHIND.sub("", self.text)
        days = list(dates_in(day))
        if grounds.has(day) or any(map(grounds.has_date, days)):
            return True
        return self.kind == _DATE and any(map(grounds.may_mean, days))


class _Masks:
    """Whether others masked a value that the agent had; `were_needed` once it may be a call's."""

    def __init__(self, values: Iterable[Json]) -> None:
        """`values` are what the agent had before it acted."""
        self._unseen = list(values)
        self.were_needed = False

    def add(self, call: ToolCall) -> None:
        """Add what a call came to."""
        self._unseen.append([call.result, call.error])

    def may_hide_it(self) -> bool:
        """Whether a value that is nowhere may be masked."""
        if not self.were_needed:
            self.were_needed = any(map(hides_values, self._unseen))
            self._unseen.clear()
        return self.were_needed


@dataclass(frozen=True)
class ArgumentsGrounded(Check):
    """Whether each identifier, e-mail address, date and amount in a call's arguments was told to
    the agent, returned by an earlier call, or follows from what was.

    Identifiers are words of letters and digits such as XEHM4B or #W4711, and numbers of five digits
    or more, in arguments whose name says that they identify something (`user_id`, `order`,
    `phone`), and postal codes beside a name or a street. Dates have a year and are written in
    digits. Amounts are numbers of 20 or more in an `amount`, `price`, `total` or the like. They are
    sought in the user's words, the conversation before, the instructions, retrieved documents, the
    tools' descriptions and schemas, earlier results and errors.

    A date follows from what the user said relative to the present, as the turn's time or the
    instructions have it, or to a told date ("next Friday", "three days later"). An amount follows
    if it is the sum of two in one text, a share in percent, or a multiple. Texts,
    queries, paths, codes of public registers (ISBN, currencies) and identifiers that a call which
    creates something may choose itself are not looked at. An identifier that the user may have
    spelled ("X as in X-ray, E, four") is no finding.
    Where a source was not recorded, arrived damaged or is longer than what is read, no later call
    is looked at; nor is a value after a masked one, which it may be.

    >>> ArgumentsGrounded.needs
    ('user_input', 'tool_calls')
    """

    name: ClassVar[str] = "check.arguments_grounded"
    summary: ClassVar[str] = (
        "Does each identifier, date and amount given to a tool come from somewhere?"
    )
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    looks_back: ClassVar[bool] = True
    fine: ClassVar[str] = (
        "Each identifier, date and amount in the arguments was told to the agent, or follows."
    )

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        values = [_values(call) for call in evidence.calls]
        if not any(values):
            return not_applicable("No call was given an identifier, a date or an amount.")
        if _found(evidence.trace, evidence.calls, values, infers=False) == []:
            return []  # as mostly: the turns before this one need not be read
        return _found(evidence.looking_back.trace, evidence.calls, values)


def _found(
    trace: AgentTrace,
    calls: tuple[ToolCall, ...],
    values: list[list[_Value]],
    *,
    infers: bool = True,
) -> list[Finding] | Skip:
    """What is found of these calls; unless it `infers`, also what follows from what was told."""
    texts = _known_texts(trace)
    if texts is None:
        return not_recorded("all that the agent was told, or it arrived cut or redacted")
    grounds = Grounds(user_texts(trace), trace.started_ns, infers=infers)
    for text in (trace.user_input or "", *(x.text or "" for x in trace.history or ())):
        grounds.add(text, is_conversation=True)
    grounds.add(trace.system_instructions or "", has_now=True)
    for text in texts:
        grounds.add(text)
    spelled = Spellings(user_texts(trace))
    masks = _Masks(_may_be_masked(trace))
    chars = sum(map(len, texts))
    found = list(
        islice(
            _from_nowhere(calls, values, grounds, spelled, masks, chars),
            MAX_FINDINGS if infers else 1,
        )
    )
    if not found and masks.were_needed:
        return not_recorded("what is masked in it, which a call may have been given")
    if not found and spelled.were_needed:
        return not_applicable("The user spells a code that a call was given.")
    return found


def _from_nowhere(
    calls: tuple[ToolCall, ...],
    values: list[list[_Value]],
    grounds: Grounds,
    spelled: Spellings,
    masks: _Masks,
    chars: int,
) -> Iterator[Finding]:
    for place, (call, looked_at) in enumerate(zip(calls, values, strict=True)):
        for found in looked_at:
            if found.is_grounded(grounds, call) or masks.may_hide_it():
                continue
            if found.kind == _IDENTIFIER and spelled.may_be(found.text):
                continue
            text = (
                f"the {found.kind} {shown(found.text)} is in nothing that the agent was told or"
                " had found, nor follows from it"
            )
            yield Finding.of_call(place, call, text, found.argument)
            grounds.add(
                _TIME_BEHIND.sub("", found.text)
            )  # one finding is enough: later calls repeat it
        result = call.error if call.result is None else printed(call.result)
        chars += len(result or "")
        if (
            (result is None and not call.returned)
            or len(result or "") >= MAX_TEXT_CHARS
            or chars > _MAX_SOURCE_CHARS
        ):
            return
        masks.add(call)
        has_now = not _TELLS_TIME.isdisjoint(name_words(call.name))
        grounds.add(result or "", is_conversation=True, has_now=has_now)


def _known_texts(trace: AgentTrace) -> list[str] | None:
    """All texts that the agent received before it acted; None where some of it is not there."""
    if not _SOURCES.isdisjoint(trace.damaged) or "available_tools" in trace.damaged:
        return None
    history = trace.history or ()
    texts = [dumps(call.arguments) for x in history for call in x.tool_calls]
    texts += [printed(document) for x in trace.retrieved for document in x.documents]
    offered = trace.available_tools or ()
    texts += [f"{x.name} {x.description or ''} {dumps(x.parameters)}" for x in offered]
    conversation = (trace.user_input, trace.system_instructions, *(x.text for x in history))
    chars = [len(x or "") for x in (*conversation, *texts)]
    is_whole = sum(chars) < _MAX_SOURCE_CHARS and max(chars) < MAX_TEXT_CHARS
    return texts if is_whole else None


def _may_be_masked(trace: AgentTrace) -> Iterator[Json]:
    """What was said or found before the agent acted; in instructions and descriptions a mask may be
    a form to fill in.
    """
    yield trace.user_input
    yield from (x.text for x in trace.history or () if x.role != "system")
    yield from (document for x in trace.retrieved for document in x.documents)


def _values(call: ToolCall) -> list[_Value]:
    """The values of a call that are looked at."""
    found: list[_Value] = []
    for argument, value, beside in _leaves(call.arguments, "", {}, 0):
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            continue
        text = str(value).strip()
        if len(text) > _MAX_VALUE_CHARS or _TELLING.search(text) is None:
            continue
        kind = _kind(text, _words_of(argument), beside)
        if kind == _ADDRESS:
            found += (_Value(argument, x, kind) for x in EMAIL.findall(text))
        elif kind and not (kind == _IDENTIFIER and _creates(call.name)):
            found.append(_Value(argument, text, kind))
    return found


def _creates(name: str) -> bool:
    """Whether a tool, by its name, creates something whose identifier the caller may choose."""
    return not _NAMING.isdisjoint(name_words(name))


@lru_cache(maxsize=1024)
def _words_of(argument: str) -> tuple[str, ...]:
    """The words of an argument's own name, but for numbers."""
    return tuple(x for x in name_words(argument.rpartition(".")[2]) if not x.isdigit())


def _kind(text: str, words: tuple[str, ...], beside: Mapping[str, Json]) -> str | None:
    """What a value is, by its looks and its argument's name; None where it is not looked at."""
    if "@" in text and _ADDRESSES.fullmatch(text):
        return _ADDRESS if _CHOSEN.isdisjoint(words) else None
    if len(text) >= _LEAST_DATE and _LIKE_A_DATE.fullmatch(_TIME_BEHIND.sub("", text)):
        if not _CHOSEN.isdisjoint(words):
            return None
        return _DATE if _BIRTH.isdisjoint(words) else _BIRTH_DATE
    if not _AMOUNTS.isdisjoint(words) and _NO_AMOUNTS.isdisjoint(words):
        return _AMOUNT if _number(text) >= _LEAST_AMOUNT else None
    return _IDENTIFIER if _is_identifying(text, words, beside) else None


def _number(text: str) -> float:
    """The number in an amount; 0 where it is none."""
    found = _MONEY.fullmatch(text)
    return float(found[1].replace(",", "")) if found else 0


def _is_identifying(text: str, words: tuple[str, ...], beside: Mapping[str, Json]) -> bool:
    if not _POSTAL.isdisjoint(words) and _is_of_person(beside):
        return _NUMBER.fullmatch(text) is not None
    if not _may_identify(words):
        return False
    if _DATE_IN_DIGITS.fullmatch(text) and (words == ("code",) or "date" in words):
        return False
    if _NUMBER.fullmatch(text):
        return sum(map(str.isdigit, text)) >= (5 if words[-1] in _NAMES_ONE else 6)
    if _OF_IDENTIFIER.fullmatch(text) is None:
        return False
    return words[-1] in _NAMES_ONE or _NO_IDENTIFIER.fullmatch(text) is None


def _is_of_person(arguments: Mapping[str, Json]) -> bool:
    names = islice(arguments, _MAX_VALUES)
    return any(not _OF_PERSONS.isdisjoint(name_words(str(x))) for x in names)


@lru_cache(maxsize=1024)
def _may_identify(words: tuple[str, ...]) -> bool:
    """Whether an argument, by the words of its name, identifies one thing that agents cannot
    know.
    """
    if _IDENTIFIES.isdisjoint(words) or not _CHOSEN.isdisjoint(words):
        return False
    if words[0] == "client" and not _CLIENTS_OWN.isdisjoint(words):
        return False
    last, before = words[-1], words[-2:-1]
    if last in _MEASURED | _KNOWN:
        return False
    if last in _CODES:
        return _KNOWN.isdisjoint(before)
    return last not in _IDS or _REGISTERED.isdisjoint(before)


def _leaves(
    value: Json, path: str, beside: Mapping[str, Json], depth: int
) -> Iterator[tuple[str, Json, Mapping[str, Json]]]:
    """The values inside `value`, each with the argument that holds it and those beside it."""
    members: Iterable[tuple[str, Json]] = ()
    if isinstance(value, dict):
        beside = value
        members = ((f"{path}.{x}" if path else str(x), value[x]) for x in value)
    elif isinstance(value, list):
        members = ((path, x) for x in value)
    for name, member in islice(members, _MAX_VALUES) if depth < _MAX_DEPTH else ():
        if isinstance(member, dict | list):
            yield from _leaves(member, name, beside, depth + 1)
        elif name:
            yield name, member, beside
