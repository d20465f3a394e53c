"""Arguments grounded: does each identifier come from somewhere?"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from spanscore.metrics.check._spelling import Spellings
from spanscore.model.json import Json, dumps, printed
from spanscore.model.masks import hides_values
from spanscore.model.score import Skip
from spanscore.model.tool_names import name_words
from spanscore.model.trace import AgentTrace, Tool, ToolCall

_SOURCES = frozenset(("history", "system_instructions", "retrieved", "user_input", "tool_calls"))
_MAX_VALUES = 200
_MAX_DEPTH = 8
_MAX_SOURCE_CHARS = 2_000_000
_IDENTIFIES_WORDS = (
    "account booking code confirmation customer email flight id identifier ids iban invoice"
    " mail number order passport payment phone pnr reference reservation sku ticket tracking user"
    " username vin"
)
_IDENTIFIES = frozenset(_IDENTIFIES_WORDS.split())
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
    "airline airport area city color colour country currency hex hs http postal postcode region"
    " state symbol zip"
)
_KNOWN = _REGISTERED | frozenset(_KNOWN_WORDS.split())
"""What else has codes that everybody knows."""

_MEASURED_WORDS = (
    "amount average balance budget cost count date day fee limit max maximum min minimum month"
    " offset percent price quantity rate size sum time timestamp total volume weight year"
)
_MEASURED = frozenset(_MEASURED_WORDS.split())
"""What agents compute, where the name of an argument ends with it."""

_CLIENTS_OWN = frozenset(("order", "ref", "reference", "token", "transaction"))
"""What has an id that the caller chooses, where its name begins with "client": client_order_id."""
_IDS = frozenset(("id", "ids", "identifier"))
_CODES = frozenset(("code", "codes", "number", "numbers"))
_NAMING_WORDS = "add create generate insert make new open register save sign signup upload write"
_NAMING = frozenset(_NAMING_WORDS.split())
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_IDENTIFIER = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_\-#]{4,63}")
_DIGITS = re.compile(r"\+?\d[\d \-]{4,30}\d")
_NO_IDENTIFIER = re.compile(
    r"\d+(?:[.,]\d+)?[-_ ]?[A-Za-z%°]{1,10}"  # 10km, 1080p, 3-day
    r"|(?:\d+[dhms]){1,4}|[a-z]{1,4}-?\d{1,3}[a-z]?"  # 2h30m, utf-8, h264, gpt-4o
    r"|[A-Za-z]+[_-]?v?\d{1,2}"  # python3, room_12, phase-2
    # weeks, quarters, dates
    r"|\d{4}-?[WwQq]\d{1,2}|[Qq][1-4][-_]?\d{4}|\d{4}-\d{2}(?:-\d{2})?(?:[Tt].*)?"
    # May-20-2024, 20-May-2024
    r"|[A-Za-z]{3,9}[-_]?\d{1,2}(?:[-_,]\d{2,4})?|\d{1,2}[-_][A-Za-z]{3,9}[-_]\d{2,4}"
)
_DATE = re.compile(  # 2026-05-03, 03-05-2026
    r"(?:19|20)\d\d([- ])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])([- ])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20)\d\d"
)
_DATE_IN_DIGITS = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_NUMBERED = re.compile(r"[A-Za-z]+[A-Za-z_\-#]*0*(\d{3,})")
_PADDED = re.compile(r"[A-Za-z]+[A-Za-z_\-#]*0+([1-9]\d?)")
"""A short number that a system writes with zeros before it: CUST-0012."""
_LEAST_PIECES = 3
_WORD = re.compile(r"[^\W_]+")
_LAST_DIGITS = 7
_SIGNS = re.compile(r"[\W_]+")


class _Identifier(NamedTuple):
    """A value that names one thing, and the argument that holds it."""

    argument: str
    value: str


@dataclass
class _Masks:
    """Whether others masked a value that the agent had; `were_needed` once it may be a call's."""

    any_yet: bool
    were_needed: bool = False

    def look_at(self, call: ToolCall) -> None:
        """See to the masks in what a call came to."""
        self.any_yet = self.any_yet or hides_values([call.result, call.error])

    def may_hide_it(self) -> bool:
        """Whether a value that is nowhere may be masked."""
        self.were_needed |= self.any_yet
        return self.any_yet


@dataclass(frozen=True)
class ArgumentsGrounded(Check):
    """Whether each identifier in a call's arguments was told to the agent, or returned by an
    earlier call.

    Identifiers are e-mail addresses, words of letters and digits such as XEHM4B or ord_4711, and
    numbers of six digits or more, in arguments whose name says that they identify something
    (`user_id`, `order`, `phone`, `confirmation_code`). They are sought without case and signs in
    the user's words, the conversation before, the instructions, retrieved documents, the tools'
    descriptions, earlier results and errors. Amounts, dates, places, texts, queries, paths, codes
    of public registers (ISBN, postal codes, currencies) and what a call that creates something may
    choose itself are not looked at: agents compute, word or know them. An identifier that the user
    may have spelled ("X as in X-ray, E, four") is no finding.
    Where a source was not recorded, arrived damaged or is longer than what is read, no later call
    is looked at; nor is an identifier after a masked value, which it may be.

    >>> ArgumentsGrounded.needs
    ('user_input', 'tool_calls')
    """

    name: ClassVar[str] = "check.arguments_grounded"
    summary: ClassVar[str] = "Does each identifier that a tool was given come from somewhere?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    looks_back: ClassVar[bool] = True
    fine: ClassVar[str] = (
        "Each identifier in the arguments was told to the agent, or returned by an earlier call."
    )

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        trace = evidence.trace
        identified = [list(_identifiers(call)) for call in evidence.calls]
        if not any(identified):
            return not_applicable("No call was given an identifier.")
        sources = _known_texts(trace)
        if sources is None:
            return not_recorded("all that the agent was told, or it arrived cut or redacted")
        spelled = Spellings(user_texts(trace))
        masks = _Masks(_hides_values(trace))
        found = list(
            islice(_from_nowhere(evidence.calls, identified, sources, spelled, masks), MAX_FINDINGS)
        )
        if not found and masks.were_needed:
            return not_recorded("what is masked in it, which a call may have been given")
        if not found and spelled.were_needed:
            return not_applicable("The user spells a code that a call was given.")
        return found


def _from_nowhere(
    calls: tuple[ToolCall, ...],
    identified: list[list[_Identifier]],
    texts: list[str],
    spelled: Spellings,
    masks: _Masks,
) -> Iterator[Finding]:
    sources = [_flat(x) for x in texts]
    words = set(_WORD.findall("\n".join(texts).casefold()))
    chars = sum(map(len, sources))
    for place, (call, found) in enumerate(zip(calls, identified, strict=True)):
        for identifier in found:
            known = _is_known(identifier.value, sources, words) or masks.may_hide_it()
            if not known and not spelled.may_be(_flat(identifier.value)):
                text = (
                    f"{shown(identifier.value)} is in nothing that the agent was told or had found"
                )
                yield Finding.of_call(place, call, text, identifier.argument)
                sources.append(
                    _flat(identifier.value)
                )  # one finding is enough: later calls repeat it
        result = call.error if call.result is None else printed(call.result)
        chars += len(result or "")
        if (
            (result is None and not call.returned)
            or len(result or "") >= MAX_TEXT_CHARS
            or chars > _MAX_SOURCE_CHARS
        ):
            return
        masks.look_at(call)
        sources.append(_flat(result or ""))
        words.update(_WORD.findall((result or "").casefold()))


def _is_known(value: str, sources: list[str], words: set[str]) -> bool:
    """Whether an identifier was told: as it is; a number without what stands before it; an address,
    and what is joined of several words, by these.
    """
    if any(_flat(value) in x for x in sources):
        return True
    if _EMAIL.fullmatch(value):
        return words.issuperset(_WORD.findall(value.casefold()))
    if _DIGITS.fullmatch(value):
        digits = _flat(value)[-_LAST_DIGITS:]
        return any(digits in x for x in sources)
    pieces = value.casefold().replace("_", "-").split("-")
    if len(pieces) >= _LEAST_PIECES and words.issuperset(pieces):
        return True
    padded = _PADDED.fullmatch(value)
    if padded is not None and padded[1] in words:
        return True
    numbered = _NUMBERED.fullmatch(value)
    return numbered is not None and any(numbered[1] in x for x in sources)


def _known_texts(trace: AgentTrace) -> list[str] | None:
    """All texts that the agent received before it acted; None where some of it is not there."""
    if not _SOURCES.isdisjoint(trace.damaged) or "available_tools" in trace.damaged:
        return None
    history = trace.history or ()
    texts = [trace.user_input or "", trace.system_instructions or ""]
    texts += [x.text or "" for x in history]
    texts += [dumps(call.arguments) for x in history for call in x.tool_calls]
    texts += [printed(document) for x in trace.retrieved for document in x.documents]
    texts += map(_offer, trace.available_tools or ())
    return texts if _is_whole(texts) else None


def _hides_values(trace: AgentTrace) -> bool:
    """Whether a mask stands in what was said or found before the agent acted; in instructions and
    descriptions it may be a form to fill in.
    """
    documents = [document for x in trace.retrieved for document in x.documents]
    texts = [trace.user_input, *(x.text for x in trace.history or () if x.role != "system")]
    return any(map(hides_values, [*texts, *documents]))


def _offer(tool: Tool) -> str:
    return f"{tool.name} {tool.description or ''} {dumps(tool.parameters)}"


def _is_whole(texts: Sequence[str]) -> bool:
    """Whether none of the texts, nor all together, are as long as they can be here."""
    if sum(map(len, texts)) >= _MAX_SOURCE_CHARS:
        return False
    return all(len(x) < MAX_TEXT_CHARS for x in texts)


def _identifiers(call: ToolCall) -> Iterator[_Identifier]:
    creates = not _NAMING.isdisjoint(name_words(call.name))
    for argument, value in _leaves(call.arguments, "", 0):
        words = tuple(x for x in name_words(argument.rpartition(".")[2]) if not x.isdigit())
        if isinstance(value, bool) or not _may_identify(words):
            continue
        text = str(value).strip() if isinstance(value, str | int) else ""
        if _EMAIL.fullmatch(text) or (
            not creates
            and _is_identifier(text)
            and not (_may_be_a_date(words) and _DATE_IN_DIGITS.fullmatch(text))
        ):
            yield _Identifier(argument, text)


def _may_be_a_date(words: tuple[str, ...]) -> bool:
    return words == ("code",) or "date" in words


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


def _is_identifier(text: str) -> bool:
    if _DATE.fullmatch(text):
        return False
    if _DIGITS.fullmatch(text):
        return sum(map(str.isdigit, text)) >= 6  # fewer are years, hours, sizes
    return _IDENTIFIER.fullmatch(text) is not None and _NO_IDENTIFIER.fullmatch(text) is None


def _leaves(value: Json, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    """The values inside `value`, each with the argument that holds it."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, member in list(value.items())[:_MAX_VALUES]:
            yield from _leaves(member, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        for member in value[:_MAX_VALUES]:
            yield from _leaves(member, path, depth + 1)
    elif path:
        yield path, value


def _flat(text: str) -> str:
    """A text by its letters and digits alone, so that a number is found however it is grouped.

    Digits and letters of full width, as Chinese and Japanese texts have them, are the common ones.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _SIGNS.sub("", text).casefold()
