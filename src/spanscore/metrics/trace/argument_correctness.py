"""Argument correctness: were the arguments right, call by call?"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from spanscore.metrics._base import Answers, Judged, Question
from spanscore.metrics._evidence import Evidence
from spanscore.metrics._grounding import Said, ungrounded
from spanscore.metrics._schema import choices, violations
from spanscore.metrics._words import MAX_TEXT_CHARS, listed
from spanscore.model.json import Json
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace, ToolCall

_MAX_NAME_CHARS = 80
_NO_FAULT = "fits what is known of the tool and of what was said before"
_TOLD = frozenset(("history", "system_instructions", "retrieved"))
_REFUSED = re.compile(
    r"validation error|invalid (?:argument|parameter|input|value|type)|(?:missing|unexpected|required) "
    r"(?:\d+ )?(?:required )?(?:positional |keyword )*(?:argument|parameter|field|property)",
    re.IGNORECASE,
)


class Verdict(BaseModel):
    """Whether one call's arguments are right."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    reason: str
    """Which argument decides the verdict, and what it should be or rests on; one sentence."""

    verdict: Literal["yes", "no"]
    """`yes`: the arguments are right. `no`: at least one is wrong, missing or made up."""


class Summary(BaseModel):
    """The reason of the whole score."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    reason: str
    """One or two sentences."""


_VERDICTS = Question(
    "verdicts",
    """\
Were the arguments of each tool call right? Take the calls one by one, in this order:
$calls
For each, decide whether the arguments are what this call needed, by what was known then:
- they fit the tool's parameters, where those were recorded, and none that was needed is missing;
- each value means what it meant where it comes from: the conversation, an earlier result, the agent's instructions, \
or what follows from these by computing, converting, rewording or common knowledge (a city's airport code, the date \
of "tomorrow").
A value is wrong that was made up, that belongs to something else (another person's id, another day, another unit), \
or that the user had changed before. An optional value that nobody asked about (a limit, a sort order, words of a \
search or of a message) is right unless it goes against what was said. What was not recorded, cut or withheld may be \
where a value comes from: then say yes. Judge the arguments only: whether it was wise to call the tool, or what it \
returned, does not matter, and a failed call may have had the right arguments; an error that names a wrong argument \
shows that it was wrong.
Give exactly one verdict for each call of the list, in the order of the list, also for calls that repeat another.""",
    list[Verdict],
)

_OVERALL = Question(
    "argument_correctness",
    """\
These tool calls were judged to have wrong arguments, for these reasons:
$wrong_calls
Sum up in one or two sentences what was wrong with the arguments in this turn. Do not judge anew.""",
    Summary,
    needs=("verdicts",),
)


@dataclass(frozen=True)
class ArgumentCorrectness(Judged):
    """The share of tool calls whose arguments were right; computed from one verdict for each call.

    A turn that made no tool call has no score: it does not apply. Where the arguments of a call were not
    recorded there is no score. Metadata: `user_input` and `verdicts` [{`verdict` yes or no, `reason`}], in the order
    of the calls.

    >>> "tool_calls" in ArgumentCorrectness.needs
    True
    """

    name: ClassVar[str] = "argument_correctness"
    summary: ClassVar[str] = "Were the arguments of each tool call right?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_VERDICTS,), (_OVERALL,))

    def quotes(self, trace: AgentTrace, answers: Answers) -> Mapping[str, str]:
        """`calls`: their names, numbered; `wrong_calls`: those judged wrong, and why."""
        names = [" ".join(call.name.split())[:_MAX_NAME_CHARS] for call in trace.tool_calls or ()]
        numbered = [f"{number}. {name}" for number, name in enumerate(names, 1)]
        wrong = [
            f"{call}: {verdict.reason}"
            for call, verdict in zip(numbered, answers.get("verdicts", ()), strict=False)
            if verdict.verdict == "no"
        ]
        return {"calls": "\n".join(numbered), "wrong_calls": "\n".join(wrong)}

    def objection(self, trace: AgentTrace, answers: Answers) -> str | None:
        """There must be as many verdicts as calls."""
        given, calls = len(answers.get("verdicts", ())), len(trace.tool_calls or ())
        if "verdicts" not in answers or given == calls:
            return None
        return f"{given} verdicts were given for {calls} tool calls; exactly one for each call is needed."

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`. With no wrong call there is no reason to ask for."""
        if "verdicts" not in answers:
            return _at_first(trace)
        verdicts = [{"verdict": x.verdict, "reason": x.reason} for x in answers["verdicts"]]
        summary: Summary | None = answers.get(self.name)
        if summary is not None:
            return _score(trace, verdicts, summary.reason)
        if all(x["verdict"] == "yes" for x in verdicts):
            return _score(trace, verdicts, f"The arguments of {_counted(len(verdicts))} are right.")
        return None

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """One verdict for each call; a call is wrong when any of this holds.

        Its arguments break the tool's own JSON schema, where the trace holds one. The tool refused them as invalid. A
        value comes from nowhere: neither the conversation, the agent's instructions, retrieved documents or the
        result of an earlier call hold it, nor the tool's own enums and defaults. Values are compared without case,
        punctuation and endings, numbers by value ("two" is 2), dates by month and day. A text of up to six words must
        be found by more than half of its words and all of its numbers, a longer one by a third. Booleans, null, 0, 1
        and codes of up to three letters are choices and need no source. Where a source was not recorded (the result of
        an earlier call), arrived damaged or is longer than 100,000 characters, values may come from there, and only
        the first two count. At most 1,000 calls are looked at, and 500,000 characters of what they hold.
        """
        tools = {tool.name: _Offered(tool.parameters) for tool in evidence.offered or ()}
        faults = [
            listed(list(_faults(call, said, tools.get(call.name, _NOTHING))))
            for call, said in zip(evidence.calls, _said_before(evidence), strict=True)
        ]
        wrong = [
            f"call {number} ({call.name}): {fault}"
            for number, (call, fault) in enumerate(zip(evidence.calls, faults, strict=True), 1)
            if fault
        ]
        reason = listed(wrong) or f"The arguments of {_counted(len(faults))} are right"
        verdicts = [{"verdict": "no" if fault else "yes", "reason": fault or _NO_FAULT} for fault in faults]
        return _score(
            evidence.trace, verdicts, f"{reason[:1].upper()}{reason[1:]}.{_unsought(evidence)}{evidence.limits}"
        )


def _at_first(trace: AgentTrace) -> Outcome | None:
    """What can be said before any verdict."""
    if not trace.tool_calls:
        return Skip("No tool was called: there are no arguments to judge.", cause="not_applicable")
    if trace.user_input is None or "user_input" in trace.damaged:
        return Skip("The trace did not record user_input, or it arrived cut or redacted.", "not_recorded")
    silent = sorted({call.name for call in trace.tool_calls if call.arguments is None})
    if silent:
        return Skip(f"The trace did not record the arguments of {', '.join(silent)}.", "not_recorded")
    return None


def _score(trace: AgentTrace, verdicts: Sequence[Mapping[str, str]], reason: str) -> Score:
    """`verdicts` are as the metadata shows them."""
    right = sum(x["verdict"] == "yes" for x in verdicts)
    return Score(round(right / len(verdicts), 4), reason, {"user_input": trace.user_input, "verdicts": list(verdicts)})


def _counted(calls: int) -> str:
    return {1: "the one call", 2: "both calls"}.get(calls, f"all {calls} calls")


def _said_before(evidence: Evidence) -> Iterator[Said | None]:
    """For each call, what had been said before it; None from where a part was not recorded, or is damaged, on.

    It is one object that grows, so it is to be used before the next is taken.
    """
    conversation, background = evidence.given
    said: Said | None = Said(conversation, background, "\n".join(evidence.raw_given))
    if not _TOLD.isdisjoint(evidence.trace.damaged) or any(map(_is_cut, evidence.raw_given)):
        said = None
    for call, raw, text in zip(evidence.calls, evidence.raw_results, evidence.results, strict=True):
        yield said
        if said is not None and (call.returned or call.error is not None) and not _is_cut(raw):
            said.add(raw, text)
        else:
            said = None


def _is_cut(text: str) -> bool:
    """Whether a text may go on after what was read of it."""
    return len(text) >= MAX_TEXT_CHARS


def _unsought(evidence: Evidence) -> str:
    """What a reason adds where a text was too long to be read whole; else ""."""
    if not any(map(_is_cut, (*evidence.raw_given, *evidence.raw_results))):
        return ""
    return f" After a text of more than {MAX_TEXT_CHARS:,} characters it was not asked where values come from."


class _Offered:
    """What a tool's JSON schema says, each thing read off it once, however often the tool is called."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._choices: frozenset[str] | None = None

    def choices(self) -> frozenset[str]:
        """The strings that the schema itself offers as values."""
        if self._choices is None:
            self._choices = frozenset(choices(self.schema))
        return self._choices


_NOTHING = _Offered(None)


def _faults(call: ToolCall, said: Said | None, tool: _Offered) -> Iterator[str]:
    """What is wrong with a call's arguments, given what had been `said` before it, if that is known."""
    if tool.schema is not None:
        yield from violations(call.arguments, tool.schema)
    if call.error and _REFUSED.search(call.error[:MAX_TEXT_CHARS]):
        yield "the tool refused them as invalid"
    for value in ungrounded(call.arguments, said, tool.choices) if said else ():
        yield f"{value} is in nothing the agent was told or had found"
