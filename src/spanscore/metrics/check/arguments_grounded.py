"""Arguments grounded: does each identifier that a tool was given come from somewhere?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from spanscore.metrics._evidence import Evidence
from spanscore.metrics._words import MAX_TEXT_CHARS
from spanscore.metrics.check._check import Check, Finding, not_applicable, not_recorded, shown
from spanscore.model.json import Json, dumps, printed
from spanscore.model.score import Skip
from spanscore.model.tool_names import name_words
from spanscore.model.trace import AgentTrace, ToolCall

_TOLD = frozenset(("history", "system_instructions", "retrieved", "user_input", "tool_calls"))
_MAX_VALUES = 200
_MAX_DEPTH = 8
_MAX_SOURCE_CHARS = 2_000_000
_IDENTIFIES_WORDS = (
    "account booking code confirmation customer email flight id identifier ids iban invoice isbn"
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
_NUMBERED = re.compile(r"[A-Za-z]+[A-Za-z_\-#]*0*(\d{3,})")
_SPELLED = re.compile(
    r"(?:\b(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|null|eins|zwei|drei|vier|fünf|sechs|sieben|"
    r"acht|neun|cero|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|zéro|deux|trois|quatre|cinq|sept|huit|neuf)\b[\s,.\-]*){3}",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_LAST_DIGITS = 7
_SIGNS = re.compile(r"[\W_]+")


class _Identifier(NamedTuple):
    """A value that names one thing, and the argument that holds it."""

    argument: str
    value: str


@dataclass(frozen=True)
class ArgumentsGrounded(Check):
    """Whether each identifier in a call's arguments was told to the agent, or returned by an
    earlier call.

    Identifiers are e-mail addresses, words of letters and digits such as XEHM4B or ord_4711, and
    numbers of six digits or more, in arguments whose name says that they identify something
    (`user_id`, `order`, `phone`, `confirmation_code`). They are sought without case and signs in
    the user's words, the conversation before, the instructions, retrieved documents, the tools'
    descriptions, earlier results and errors. Amounts, dates, places, texts, queries, paths and what
    a call that creates something may choose itself are not looked at: agents compute and word them.
    Where a source was not recorded, arrived damaged or is longer than what is read, no later call
    is looked at.

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
        return _from_nowhere(evidence.calls, identified, sources)


def _from_nowhere(
    calls: tuple[ToolCall, ...], identified: list[list[_Identifier]], told: list[str]
) -> Iterator[Finding]:
    sources = [_flat(x) for x in told]
    words = set(_WORD.findall("\n".join(told).casefold()))
    chars = sum(map(len, sources))
    for place, (call, found) in enumerate(zip(calls, identified, strict=True)):
        for identifier in found:
            if not _is_known(identifier.value, sources, words):
                text = (
                    f"{shown(identifier.value)} is in nothing that the agent was told or had found"
                )
                yield Finding.of_call(place, call, text, identifier.argument)
                sources.append(_flat(identifier.value))  # told once: later calls repeat it
        result = call.error if call.result is None else printed(call.result)
        chars += len(result or "")
        if (
            (result is None and not call.returned)
            or len(result or "") >= MAX_TEXT_CHARS
            or chars > _MAX_SOURCE_CHARS
        ):
            return
        sources.append(_flat(result or ""))
        words.update(_WORD.findall((result or "").casefold()))


def _is_known(value: str, sources: list[str], words: set[str]) -> bool:
    """Whether an identifier was told: as it is; a number without what stands before it; an address
    by its words.
    """
    if any(_flat(value) in x for x in sources):
        return True
    if _EMAIL.fullmatch(value):
        return words.issuperset(_WORD.findall(value.casefold()))
    if _DIGITS.fullmatch(value):
        digits = _flat(value)[-_LAST_DIGITS:]
        return any(digits in x for x in sources)
    numbered = _NUMBERED.fullmatch(value)
    return numbered is not None and any(numbered[1] in x for x in sources)


def _known_texts(trace: AgentTrace) -> list[str] | None:
    """All that the agent was told before it acted; None where some of it is not there."""
    if not _TOLD.isdisjoint(trace.damaged) or "available_tools" in trace.damaged:
        return None
    texts = [
        trace.user_input or "",
        trace.system_instructions or "",
        *(x.text or "" for x in trace.history or ()),
    ]
    texts += [dumps(call.arguments) for x in trace.history or () for call in x.tool_calls]
    texts += [printed(document) for x in trace.retrieved for document in x.documents]
    texts += [
        f"{x.name} {x.description or ''} {dumps(x.parameters)}" for x in trace.available_tools or ()
    ]
    if any(map(_SPELLED.search, texts)):
        return None  # digits in words are not put together here
    is_whole = (
        all(len(x) < MAX_TEXT_CHARS for x in texts) and sum(map(len, texts)) < _MAX_SOURCE_CHARS
    )
    return texts if is_whole else None


def _identifiers(call: ToolCall) -> Iterator[_Identifier]:
    creates = not _NAMING.isdisjoint(name_words(call.name))
    for argument, value in _leaves(call.arguments, "", 0):
        words = set(name_words(argument.rpartition(".")[2]))
        if not words & _IDENTIFIES or words & _CHOSEN or isinstance(value, bool):
            continue
        text = str(value).strip() if isinstance(value, str | int) else ""
        if _EMAIL.fullmatch(text) or (not creates and _is_identifier(text)):
            yield _Identifier(argument, text)


def _is_identifier(text: str) -> bool:
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
    """A text by its letters and digits alone, so that a number is found however it is grouped."""
    return _SIGNS.sub("", text).casefold()
