"""Tool correctness: were the right tools chosen?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged, Judgement, Question
from spanscore.metrics._evidence import READING_VERBS, Evidence, name_words, reads
from spanscore.metrics._vocabulary import Vocabulary
from spanscore.metrics._words import STOP_WORDS, counted, listed, stem
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace

_QUESTION = Question(
    "tool_correctness",
    """\
Were the right tools chosen for what the user asked? Judge which tools were called and when: not their arguments, not \
the answer. Go through four questions:
1. Correct selection: did the tools that were called fit the task, and were they enough for it?
2. Over-selection: was a call needless, since its answer was there already and nothing had changed, or since nothing \
in the task asked for it? Needless is no look-up or check that the agent's instructions demand, no further page or \
other object, no asking again for a state that changes, and no second try after an error that may pass.
3. Under-selection: was a tool on offer not called that the task or the agent's instructions needed, above all where \
the agent answered from memory what a tool would have shown, or claimed a deed without the call that does it?
4. Mis-selection: was a tool called that does something else than was needed, that changes or deletes where the user \
only wanted to see, or that is not on offer?
That a tool failed is no fault of its choice; it is one to leave the matter there though another tool on offer would \
have served. Where nothing had to be looked up or done, or the user had first to be asked for something, no call is \
right. Where the tools on offer were not recorded, leave out what only they can answer.
Guide: 1.0 the tools that were needed and no others; 0.75 to 0.99 all that were needed, and a needless call or two \
that changed nothing; 0.5 to 0.74 what the task cannot do without was called, but several calls were needless or a \
tool that would have helped was not called; 0.25 to 0.49 a tool that the task needed was not called, or a wrong one \
was, and the result suffers; 0 to 0.24 the calls do not serve the task, none was made though it cannot be done \
without, or one changed what it must not.""",
    Judgement,
)
_UNKNOWN = re.compile(
    r"(?:unknown|no such|unrecognized) tool|not a valid tool|tool \S+ (?:was )?not found", re.IGNORECASE
)
_ERROR_CHARS = 500
_MAX_FAILED, _MAX_ALTERNATIVES = 10, 10


@dataclass(frozen=True)
class ToolCorrectness(Judged):
    """Whether the tools that were called were the right ones: fitting, enough, none needless and none wrong.

    Arguments do not count here (see argument_correctness). Where no tool was on offer, and none was called, there is no
    score: it does not apply. Metadata: `user_input`, `tools_called` [{`name`,
    `parameters`}] and `available_tools` [{`name`, `description`}], null where the trace did not say what was on offer.

    >>> ToolCorrectness(threshold=0.8).name
    'tool_correctness'
    """

    name: ClassVar[str] = "tool_correctness"
    summary: ClassVar[str] = "Were the right tools chosen?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    def settle(self, trace: AgentTrace, answers: Answers) -> Outcome | None:
        """See `Judged.settle`. Without a tool there was nothing to choose from."""
        if trace.available_tools == () and not trace.tool_calls:
            return Skip("No tool was on offer, and none was called.", cause="not_applicable")
        return super().settle(trace, answers)

    def metadata(self, trace: AgentTrace, answers: Answers) -> dict[str, Any]:
        """The facts that were judged, from the trace."""
        del answers
        offered = Evidence(trace).offered
        return {
            "user_input": trace.user_input,
            "tools_called": [{"name": x.name, "parameters": x.arguments} for x in trace.tool_calls or ()],
            "available_tools": offered
            if offered is None
            else [{"name": x.name, "description": x.description} for x in offered],
        }

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """The balance (harmonic mean) of precision and recall of the calls.

        Precision is the share of calls without fault. A fault is: a tool that is not on offer, or that the call's own
        error says there is not; an exact repetition of a call that had succeeded and that brought the same result; an
        unchanged repetition of a failed call that fails again. That a tool failed is no fault: it may have been the
        right one all the same.

        Recall is the share of the tools needed that were called without fault; needed are those, and what was missed.
        Missed is every other tool on offer that the input names: all words of its name stand in the input (a verb such
        as get or search may be missing), and no tool called shares them. Missed is, too, the alternative to a tool that
        failed and never succeeded, where none was called: another tool on offer that looks something up, as the
        failed one does, and whose name says what in the same words, or in more or fewer of them (get_weather and
        weather_forecast_search). A turn without calls scores 1 if no tool was missed, else 0.
        """
        calls = evidence.calls
        faults = dict(_faults(evidence))
        right = {call.name for index, call in enumerate(calls) if index not in faults}
        missed = [*_ignored(evidence), *_untried(evidence)]
        precision = 1 - len(faults) / len(calls) if calls else 1.0
        recall = len(right) / (len(right) + len(missed)) if right or missed else 1.0
        value = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        problems = [f"call {index + 1} ({calls[index].name}) {fault}" for index, fault in sorted(faults.items())]
        reason = listed(problems + missed) or _faultless(len(calls))
        return Score(
            round(value, 4), f"{reason[:1].upper()}{reason[1:]}.{evidence.limits}", self.metadata(evidence.trace, {})
        )


def _faultless(calls: int) -> str:
    if calls:
        return f"No fault in the choice of tools for {counted(calls, 'call')}"
    return "No tool was called, and the input names none that was on offer"


def _faults(evidence: Evidence) -> Iterator[tuple[int, str]]:
    """(index, what is wrong) of the calls; the last word on a call counts."""
    for index in evidence.blind_retries:
        yield index, f"repeats call {evidence.repeats[index] + 1}, which had failed, unchanged and in vain"
    for index in evidence.duplicates:
        yield index, f"repeats call {evidence.repeats[index] + 1}, which had succeeded with the same result"
    names = _Names(x.name for x in evidence.offered or ())
    for index, call in enumerate(evidence.calls):
        if names and call.name not in names:
            yield index, "is of a tool that is not on offer"
        elif call.error and _UNKNOWN.search(call.error[:_ERROR_CHARS]):
            yield index, "is of a tool that there is not, as its error says"


class _Names:
    """Names of tools; a prefix that a server or framework puts before a name makes it no other tool."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name_words(name) for name in names}
        self._endings = {ending for words in self._names for ending in _endings(words)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def __contains__(self, name: str) -> bool:
        words = name_words(name)
        return words in self._names or words in self._endings or not self._names.isdisjoint(_endings(words))


@lru_cache(maxsize=1024)
def _endings(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(words[place:] for place in range(len(words)))


def _ignored(evidence: Evidence) -> Iterator[str]:
    """What was missed of what the input names."""
    asked = Vocabulary(evidence.request.split())
    used = {word for name in evidence.called for word in name_words(name)}
    for tool in evidence.offered or ():
        topic = _topic(tool.name)
        if topic and all(map(asked.holds, topic)) and topic.isdisjoint(used):
            yield f"the input names {tool.name}, which was on offer and not called"


def _untried(evidence: Evidence) -> Iterator[str]:
    """What was missed after a tool had failed for good: an alternative to it, where none of them was called."""
    failed = dict.fromkeys(evidence.calls[index].name for index in evidence.unrecovered)
    called = _Names(evidence.called if failed else ())
    for name in islice(failed, _MAX_FAILED):
        others = [x.name for x in evidence.offered or () if _may_stand_in(x.name, name)][:_MAX_ALTERNATIVES]
        if others and not any(other in called for other in others):
            yield f"{name} failed for good, and {others[0]}, an alternative on offer, was not tried"


def _may_stand_in(other: str, name: str) -> bool:
    """Whether another tool looks up the same kind of thing, as far as the names tell."""
    wanted, had = _looked_up(name), _looked_up(other)
    alike = bool(wanted and had) and (wanted <= had or had <= wanted)
    return alike and other not in _Names((name,))


@lru_cache(maxsize=1024)
def _looked_up(name: str) -> frozenset[str]:
    """The stems of what a tool looks up; empty where no word of its name is the verb of one that reads."""
    words = name_words(name)
    if READING_VERBS.isdisjoint(words):
        return frozenset()
    return frozenset(stem(x) for x in words if x not in READING_VERBS and x not in STOP_WORDS and len(x) > 1)


@lru_cache(maxsize=1024)
def _topic(name: str) -> frozenset[str]:
    """The telling words of a tool's name, without the verb of one that reads."""
    words = [x for x in name_words(name) if x not in STOP_WORDS and len(x) > 1]
    verb = name_words(name)[0] if reads(name) else None
    return frozenset(words[1:] if len(words) > 1 and words[0] == verb else words)
