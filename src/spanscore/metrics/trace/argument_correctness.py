"""Argument correctness: were the arguments right, call by call?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from spanscore.metrics._base import Answers, Judged, Question
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace

_MAX_NAME_CHARS = 80


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
