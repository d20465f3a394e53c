"""Tool correctness: were the right tools chosen?"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from spanscore.metrics._base import Answers, Judged, Judgement, Question
from spanscore.metrics._evidence import Evidence, name_words, reads
from spanscore.metrics._words import STOP_WORDS, holds
from spanscore.model.score import Outcome, Score
from spanscore.model.trace import AgentTrace, Tool

_QUESTION = Question(
    "tool_correctness",
    """\
Were the right tools chosen for what the user asked? Judge the choice of tools only: not their arguments, not the \
answer. Go through four questions:
1. Correct selection: did the tools that were called fit the task, and were they enough for it?
2. Over-selection: was a call unneeded, or a repetition of one that had already given its answer?
3. Under-selection: was a tool on offer ignored that would have helped with something asked?
4. Mis-selection: was a tool called that is wrong for its purpose, or that is not on offer?
Where the tools on offer were not recorded, leave out what only they can answer. A turn that needed no tool and called \
none is right.
Guide: 1.0 exactly the tools that were needed; 0.75 one small fault in any of the four; 0.5 faults that cost \
something, though the core was right; 0.25 mostly wrong, missing or needless; 0.0 the tools did not \
serve the task at all.""",
    Judgement,
)


@dataclass(frozen=True)
class ToolCorrectness(Judged):
    """Whether the tools that were called were the right ones: fitting, enough, none needless and none wrong.

    Arguments do not count here (see argument_correctness). Metadata: `user_input`, `tools_called` [{`name`,
    `parameters`}] and `available_tools` [{`name`, `description`}], null where the trace did not say what was on offer.

    >>> ToolCorrectness(threshold=0.8).name
    'tool_correctness'
    """

    name: ClassVar[str] = "tool_correctness"
    summary: ClassVar[str] = "Were the right tools chosen?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "tool_calls")
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

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

        Precision is the share of calls without fault. A fault is: a tool that is not on offer; an exact repetition of
        a call that had succeeded and that brought the same result; a failed call after which that tool never
        succeeded. Recall is the share of the tools needed that were called without fault; needed are those, and
        every other tool on offer that the input names: all words of its name stand in the input (a verb such as get
        or search may be missing), and no tool called shares them. A turn without calls scores 1 if no such tool was
        ignored, else 0.
        """
        calls, offered = evidence.calls, evidence.offered
        faults = dict(_faults(evidence, offered))
        right = {call.name for index, call in enumerate(calls) if index not in faults}
        ignored = [x.name for x in offered or () if _ignored(x, evidence)]
        precision = 1 - len(faults) / len(calls) if calls else 1.0
        recall = len(right) / (len(right) + len(ignored)) if right or ignored else 1.0
        value = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        problems = [f"call {index + 1} ({calls[index].name}) {fault}" for index, fault in sorted(faults.items())]
        problems += [f"the input names {name}, which was on offer and not called" for name in ignored]
        reason = f"{'; '.join(problems)}." if problems else f"No fault in {len(calls)} call{'s' * (len(calls) != 1)}."
        return Score(value, reason[:1].upper() + reason[1:], self.metadata(evidence.trace, {}))


def _faults(evidence: Evidence, offered: tuple[Tool, ...] | None) -> Iterator[tuple[int, str]]:
    """(index, what is wrong) of the calls; the last word on a call counts."""
    yield from ((index, "failed, and that tool never succeeded") for index in evidence.unrecovered)
    yield from ((index, "repeats a call that had succeeded") for index in evidence.duplicates)
    names = {name_words(x.name) for x in offered or ()}
    for index, call in enumerate(evidence.calls) if names else ():
        if not _is_among(name_words(call.name), names):
            yield index, "is of a tool that is not on offer"


def _is_among(words: tuple[str, ...], names: set[tuple[str, ...]]) -> bool:
    """Whether `words` is a name; a prefix that a server or framework puts before one makes it no other tool."""
    return words in names or any(words[-len(x) :] == x or x[-len(words) :] == words for x in names if x and words)


def _ignored(tool: Tool, evidence: Evidence) -> bool:
    topic = _topic(tool.name)
    if not topic or not all(holds(evidence.request, word) for word in topic):
        return False
    return not any(topic & set(name_words(call.name)) for call in evidence.calls)


@lru_cache(maxsize=1024)
def _topic(name: str) -> frozenset[str]:
    """The telling words of a tool's name, without the verb of one that reads."""
    words = [x for x in name_words(name) if x not in STOP_WORDS and len(x) > 1]
    verb = name_words(name)[0] if reads(name) else None
    return frozenset(words[1:] if len(words) > 1 and words[0] == verb else words)
