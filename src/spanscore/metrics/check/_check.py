"""The base of checks."""

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from spanscore.errors import SpanscoreError, shortened
from spanscore.metrics._base import Computed
from spanscore.model.json import Json, dumps
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.span import changed
from spanscore.model.trace import AgentTrace, PastMessage, Tool, ToolCall
from spanscore.threads import cached_property

MAX_CALLS = 1_000
"""No more of a trace's tool calls are looked at."""
MAX_CALLS_CHARS = 500_000
"""Nor more of all that they hold, arguments and results: about what fits into the context of the
agent's model.
"""


class EarlierTurnsNeededError(SpanscoreError):
    """A trace cannot be evaluated without the turns of its session before it."""


class Evidence:
    """Facts derived from one agent trace, each computed when first asked for and kept.

    Texts are as `plain` gives them; indices are places in `calls`.
    """

    def __init__(self, trace: AgentTrace, earlier: Sequence[AgentTrace] | None = ()) -> None:
        """`earlier` are the session's turns before the trace, oldest first; None: nobody has looked
        for them.
        """
        self.trace = trace
        self._earlier = earlier

    @cached_property
    def looking_back(self) -> "Evidence":
        """This, with the 20 turns before as the history of a trace that records none.

        Raises EarlierTurnsNeededError where nobody has looked for them.
        """
        if self.trace.history:
            return self
        if self._earlier is None and self.trace.session_id is not None:
            raise EarlierTurnsNeededError
        if not self._earlier:
            return self
        before = self._earlier[-_MAX_EARLIER_TURNS:]
        history = tuple(message for trace in before for message in _messages(trace))
        return Evidence(changed(self.trace, history=history))

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that are looked at: the first ones, as many as the bounds allow."""
        return (self.trace.tool_calls or ())[: len(self._texts)]

    @property
    def offered(self) -> tuple[Tool, ...] | None:
        """The tools on offer; None where the trace did not say, or what it said arrived cut or
        redacted.
        """
        return None if "available_tools" in self.trace.damaged else self.trace.available_tools

    @cached_property
    def request(self) -> str:
        """The user's input."""
        return plain(self.trace.user_input or "")

    @cached_property
    def answer(self) -> str:
        """The final output."""
        return plain(self.trace.final_output or "")

    @cached_property
    def results(self) -> list[str]:
        """What each call returned, or the error it ended with; "" where neither was recorded."""
        return [plain(result) for _, result in self._texts]

    @cached_property
    def _texts(self) -> list[tuple[str, str]]:
        """The arguments and the result, as text, of each call that is looked at; of the first one
        always.
        """
        found: list[tuple[str, str]] = []
        chars = 0
        for call in (self.trace.tool_calls or ())[:MAX_CALLS]:
            arguments, result = (
                _text(call.arguments),
                _text(call.error if call.result is None else call.result),
            )
            chars += len(arguments) + len(result)
            if found and chars > MAX_CALLS_CHARS:
                break
            found.append((arguments, result))
        return found


def _text(value: Json) -> str:
    if value is None:
        return ""
    return (value if isinstance(value, str) else dumps(value))[:MAX_TEXT_CHARS]


_OTHER_PUNCTUATION = (
    "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u2022\u00ab\u00bb\u00a0\n\r\t"
)
_SPACES = str.maketrans(dict.fromkeys(string.punctuation + _OTHER_PUNCTUATION, " "))
_ASCII = bytes(range(128)).decode().lower().translate(_SPACES).encode().ljust(256)

MAX_TEXT_CHARS = 100_000
"""Of any one text, no more than this is read: what a trace holds has no bound of its own."""

_STOP = (
    "a about above after again all also am an and any are as at be because been before being but by"
    " can could d did do does doing done for from give had has have having he her here hi hello him"
    " his how i if in into is it its just ll let like m make me more most my need no not of on once"
    " only or other our out over please re s same she should so some such t tell than thank thanks"
    " that the their them then there these they this those through to too us under until up use"
    " using ve very want was we were what when where which while who whom why will with would you"
    " your yes ok okay sure know show get"
)
STOP_WORDS = frozenset(_STOP.split())
"""English words that say nothing about what a text is about, with what apostrophes leave behind
("don t").
"""

_MAX_LISTED = 10


def plain(text: str) -> str:
    """`text` in lower case, each punctuation mark a space, and a space at both ends: " word " is
    then a whole word.

    >>> plain("Fly to New-York!")
    ' fly to new york  '
    """
    text = text[:MAX_TEXT_CHARS]
    if text.isascii():  # the same by a table of bytes, in a fifth of the time
        return f" {text.encode().translate(_ASCII).decode()} "
    return f" {text.lower().translate(_SPACES)} "


def counted(count: int, thing: str) -> str:
    """A number of things, in words for a reason.

    >>> counted(1, "call"), counted(2, "call")
    ('1 call', '2 calls')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def listed(parts: Sequence[str]) -> str:
    """The first ten of `parts`, and how many more there are: a reason is for reading.

    >>> listed(["one", "two"]), listed(["x"] * 12)[-12:]
    ('one; two', 'x; x; 2 more')
    """
    more = len(parts) - _MAX_LISTED
    return "; ".join(parts) if more <= 0 else "; ".join([*parts[:_MAX_LISTED], f"{more} more"])


MAX_FINDINGS = 20
"""No more of them are looked for."""
_SHOWN_CHARS = 200
_MAX_EARLIER_TURNS = 20
_MAX_EARLIER_CHARS = 5_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where the fault shows.

    `call` counts the turn's tool calls from 1; None where it is in no call.
    """

    text: str
    call: int | None = None
    tool: str | None = None
    argument: str | None = None

    @classmethod
    def of_call(
        cls, place: int, call: ToolCall, text: str, argument: str | None = None
    ) -> "Finding":
        """A finding in the call at `place`, counted from 0."""
        return cls(text, place + 1, call.name, argument)

    def in_words(self) -> str:
        """The finding as a part of a sentence."""
        where = "" if self.call is None else f"call {self.call} ({self.tool}): "
        return f"{where}{self.text}"

    def to_json(self) -> dict[str, Any]:
        """The finding as the score's metadata has it."""
        return {"call": self.call, "tool": self.tool, "argument": self.argument, "text": self.text}


@dataclass(frozen=True)
class Check(Computed):
    """A metric that is 1.0 where nothing was found and 0.0 where something was; metadata
    `findings`.

    Each finding has `call` (the number of the tool call, from 1, or null), `tool`, `argument` and
    `text`.
    """

    method: ClassVar[str] = "check"
    fine: ClassVar[str]
    """The reason where nothing was found."""

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """What is found in a trace that holds all that `needs` names; a Skip where the check does
        not apply.

        One that `looks_back` finds the turns before in `evidence.looking_back`, which it asks for
        only where the trace alone does not settle it.
        """
        raise NotImplementedError

    def measure(self, trace: AgentTrace, earlier: Sequence[AgentTrace] = ()) -> Outcome:
        """See `Computed.measure`; `earlier` are as of `Evidence`."""
        return self.found_in(Evidence(trace, earlier))

    def found_in(self, evidence: Evidence) -> Outcome:
        """As `measure`, from the evidence that the checks of one trace share.

        The turns before count where the trace records no history. Where none of them is known
        either, what was found may be explained by what was said there: then it counts as not
        recorded.
        """
        found = self.look(evidence)
        if isinstance(found, Skip):
            return found
        findings = list(islice(found, MAX_FINDINGS))
        if not findings:
            return Score(1.0, self.fine, {"findings": []})
        if self.looks_back and evidence.looking_back.trace.history is None:
            return not_recorded(
                "the conversation before this turn, which may account for what was found"
            )
        reasons = listed([x.in_words() for x in findings])
        count = f" ({len(findings)} findings)" if len(findings) > 1 else ""
        reason = f"{reasons[:1].upper()}{reasons[1:]}{count}."
        return Score(0.0, reason, {"findings": [x.to_json() for x in findings]})


def not_applicable(why: str) -> Skip:
    """The outcome of a check that has nothing to look at."""
    return Skip(why, cause="not_applicable")


def not_recorded(what: str) -> Skip:
    """The outcome of a check that lacks a fact."""
    return Skip(f"The trace did not record {what}.", cause="not_recorded")


def shown(value: Json) -> str:
    """A value as a finding quotes it: on one line, at most 200 characters.

    >>> shown("two  words"), shown({"a": 1})
    ('"two words"', '{"a":1}')
    """
    text = dumps(" ".join(value.split()) if isinstance(value, str) else value)
    return shortened(text, _SHOWN_CHARS)


def user_texts(trace: AgentTrace) -> Iterator[str]:
    """What the user said, in this turn and before it."""
    yield trace.user_input or ""
    yield from (x.text or "" for x in trace.history or () if x.role == "user")


def _messages(trace: AgentTrace) -> Iterator[PastMessage]:
    if trace.user_input:
        yield PastMessage("user", trace.user_input[:_MAX_EARLIER_CHARS])
    for call in trace.tool_calls or ():
        if call.result is not None:
            text = call.result if isinstance(call.result, str) else dumps(call.result)
            yield PastMessage("tool", text[:_MAX_EARLIER_CHARS])
    if trace.final_output:
        yield PastMessage("assistant", trace.final_output[:_MAX_EARLIER_CHARS])
