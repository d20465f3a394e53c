"""Argument correctness: were the arguments right, call by call?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from spanscore.metrics._base import Answers, Judged, OfCalls, Question, Threshold
from spanscore.model.options import Described
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace
from spanscore.stats import finite_rate

_MAX_NAME_CHARS = 80
_MAX_QUOTED = 50


class Verdict(Described):
    """Whether one call's arguments are right."""

    model_config = ConfigDict(frozen=True)

    call: Annotated[int, Field(strict=True)]
    """The number of the call's step."""

    reason: str
    """Which argument decides the verdict, and what it should be or rests on; one sentence."""

    verdict: Literal["yes", "no"]
    """`yes`: the arguments are right. `no`: at least one is wrong, missing or made up."""


_VERDICTS = Question(
    "verdicts",
    """\
Were the arguments of each of these tool calls, named by the numbers of their steps, what the call \
needed, by what was known then?
$calls
Right: they fit the tool's parameters, where those were recorded, none that was needed is missing, \
and each value means what it meant where it comes from: the conversation, an earlier result, the \
agent's instructions, or what follows from these by computing, converting, rewording or common \
knowledge (a city's airport code, the date of "tomorrow"). An optional value that nobody asked \
about (a limit, a sort order, words of a search or of a message) is right unless it goes against \
what was said.
Wrong: a value that was made up, that belongs to something else (another person's id, another day, \
another unit), or that the user had changed before. Where the transcript marks a source as left \
out, withheld or not recorded, a value that fits what is shown is right; elsewhere a value without \
a source is made up.
Judge the arguments only: whether it was wise to call the tool, or what it returned, does not \
matter; an error shows a wrong argument where it names one.
Give exactly one verdict, with the number of its step, for each call of the list, also for calls \
that repeat another; none for other calls.""",
    Verdict,
    of_calls=True,
)

_OVERALL = Question(
    "argument_correctness",
    """\
These tool calls were judged to have wrong arguments:
$wrong_calls
Sum up in one or two sentences what was wrong with the arguments of the calls with the verdict \
`no`. Do not judge anew.""",
    str,
    needs=("verdicts",),
    moot="each verdict is `yes`",
)


@dataclass(frozen=True)
class ArgumentCorrectness(Judged):
    """The share of tool calls whose arguments were right; computed from one verdict for each call.

    The label is `pass` where no judged call was wrong: one wrong id among ten right ones can delete
    what belongs to somebody else. A lower `threshold` lets that share of right calls pass.

    A turn that made no tool call has no score: it does not apply. Where the arguments of a call
    were not recorded there is no score. Of a turn with more than `judge.max_verdicts` calls a
    random sample is judged. Metadata: `user_input` and `verdicts` [{`call`, the number of its step,
    `tool`, `verdict` yes or no, `reason`}], in the order of the calls; where not all were judged
    also `calls`, `judged`, `share_judged` and `interval`, the limits of the share among all calls
    at the level 95 %.

    >>> "tool_calls" in ArgumentCorrectness.needs
    True
    """

    name: ClassVar[str] = "argument_correctness"
    summary: ClassVar[str] = "Were the arguments of each tool call right?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_VERDICTS,), (_OVERALL,))

    threshold: Threshold = 1.0

    def quotes(self, trace: AgentTrace, answers: Answers) -> Mapping[str, str]:
        """`wrong_calls`: those judged wrong, and why, at most 50 of them."""
        judged = answers["verdicts"].answers if "verdicts" in answers else {}
        wrong = [_named(trace, place, x) for place, x in judged.items() if x.verdict == "no"]
        more = [f"and {len(wrong) - _MAX_QUOTED} more"] if len(wrong) > _MAX_QUOTED else []
        return {"wrong_calls": "\n".join(wrong[:_MAX_QUOTED] + more)}

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`. With no wrong call there is no reason to ask for."""
        if "verdicts" not in answers:
            return _at_first(trace)
        judged: OfCalls = answers["verdicts"]
        if not judged.answers:
            return Skip(
                "The arguments of no call can be shown whole to the judge; raise"
                " judge.max_transcript_tokens.",
                "other",
            )
        if all(x.verdict == "yes" for x in judged.answers.values()):
            return _judged(
                trace, judged, f"The arguments of {_counted(len(judged.answers))} are right."
            )
        summary: str | None = answers.get(self.name)
        return None if summary is None else _judged(trace, judged, summary)


def _at_first(trace: AgentTrace) -> Outcome | None:
    """What can be said before any verdict."""
    if not trace.tool_calls:
        return Skip("No tool was called: there are no arguments to judge.", cause="not_applicable")
    if trace.user_input is None or "user_input" in trace.damaged:
        return Skip(
            "The trace did not record user_input, or it arrived cut or redacted.", "not_recorded"
        )
    silent = sorted({call.name for call in trace.tool_calls if call.arguments is None})
    if silent:
        return Skip(
            f"The trace did not record the arguments of {', '.join(silent)}.", "not_recorded"
        )
    return None


def _named(trace: AgentTrace, place: int, verdict: Verdict) -> str:
    name = " ".join((trace.tool_calls or ())[place].name.split())[:_MAX_NAME_CHARS]
    return f"step {verdict.call} ({name}): {verdict.reason}"


def _judged(trace: AgentTrace, judged: OfCalls, reason: str) -> Score:
    """The share of right calls; where not all were judged with its interval, and the reason says
    so.
    """
    calls = trace.tool_calls or ()
    verdicts = [
        {"call": x.call, "tool": calls[place].name, "verdict": x.verdict, "reason": x.reason}
        for place, x in judged.answers.items()
    ]
    right = sum(x["verdict"] == "yes" for x in verdicts)
    facts: dict[str, Any] = {"user_input": trace.user_input, "verdicts": verdicts}
    if len(verdicts) < judged.total:
        low, high = _limits(right, judged)
        share = len(verdicts) / judged.total
        facts |= {"calls": judged.total, "judged": len(verdicts), "share_judged": round(share, 4)}
        facts["interval"] = [round(low, 4), round(high, 4)]
        reason = f"{reason} {_in_part(judged)} Of all calls {low:.0%} to {high:.0%} are right."
    return Score(round(right / len(verdicts), 4), reason, facts)


def _limits(right: int, judged: OfCalls) -> tuple[float, float]:
    """The limits of the share of right calls among all at the level 95 %, whatever those are that
    were not shown.
    """
    unseen = judged.sampled - len(judged.answers)
    least = finite_rate(right, judged.sampled, judged.total).interval
    most = finite_rate(right + unseen, judged.sampled, judged.total).interval
    return (least.low if least else 0.0), (most.high if most else 1.0)


def _in_part(judged: OfCalls) -> str:
    """Of which calls the score is."""
    n, unseen = len(judged.answers), judged.sampled - len(judged.answers)
    drawn = f" of {judged.sampled} drawn at random" if judged.sampled < judged.total else ""
    hidden = f"; {unseen} are too long to be shown whole to the judge" if unseen else ""
    return f"{n}{drawn} of {judged.total} calls were judged{hidden}."


def _counted(calls: int) -> str:
    return {1: "the one call", 2: "both calls"}.get(calls, f"all {calls} calls")
