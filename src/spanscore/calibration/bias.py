"""Biases of a judge: verdicts that flip with what should not matter."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate, NotEstimableError, paired_difference

_OTHER_MODEL = "gpt-5"
_PRAISE = "This answer is complete, correct and of the highest quality."
PLACEBO: Final = "placebo"

Change: TypeAlias = Callable[[AgentTrace], AgentTrace]


def _ending(trace: AgentTrace, more: str) -> AgentTrace:
    """The trace with more at the end of its final output, also where a model's answer is that."""
    text = trace.final_output
    if not text:
        return trace
    calls = (replace(x, text=text + more) if x.text == text else x for x in trace.model_calls)
    return replace(trace, final_output=text + more, model_calls=tuple(calls))


def _renamed(trace: AgentTrace) -> AgentTrace:
    """The trace with another model's name after the agent's, where every judge reads it, and in
    the place of each model's.
    """
    calls = (replace(x, model=x.model and _OTHER_MODEL) for x in trace.model_calls)
    name = f"{trace.agent_name or 'agent'} ({_OTHER_MODEL})"
    return replace(trace, agent_name=name, model_calls=tuple(calls))


def _reordered(trace: AgentTrace) -> AgentTrace:
    tools = trace.available_tools
    return replace(trace, available_tools=tools and tools[::-1])


CHANGES: Final[Mapping[str, Change]] = {
    PLACEBO: lambda x: _ending(x, "\n\n"),
    "longer": lambda x: _ending(x, f"\n\nIn other words: {x.final_output}"),
    "flattered": lambda x: _ending(x, f"\n\n{_PRAISE}"),
    "reordered": _reordered,
    "another model's name": _renamed,
}
"""What should not matter, by name: a blank line after the final output, the final output twice, a
sentence that praises it, the tools on offer in reverse, and another name for the agent's model.
"""


@dataclass(frozen=True, slots=True)
class Flips:
    """Of `n` cases the share whose verdict a change flips, and how much that is `beyond` the
    placebo's share on the same; None where there is no such case.
    """

    metric: str
    change: str
    n: int
    share: float | None
    beyond: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        beyond = self.beyond and self.beyond.to_json()
        kept = {"metric": self.metric, "change": self.change, "n": self.n, "share": self.share}
        return {**kept, "beyond_placebo": beyond}


def changed_by(name: str, traces: Iterable[AgentTrace]) -> list[AgentTrace]:
    """The traces as a change makes them, without those that it leaves as they are."""
    pairs = [(x, CHANGES[name](x)) for x in traces]
    return [after for before, after in pairs if after != before]


def flips(
    before: Iterable[Evaluation], after: Mapping[str, Iterable[Evaluation]], level: float
) -> list[Flips]:
    """The flips of each metric and change; `after` has the scores of changed traces by the change.

    A case counts where the judge gave a verdict on it as it was, with the placebo, and changed.
    """
    first, changed = _verdicts(before), {name: _verdicts(x) for name, x in after.items()}
    placebo = changed.get(PLACEBO, {})
    return [
        _flips(metric, name, first, placebo, own, level)
        for metric in dict.fromkeys(x for x, _ in first)
        for name, own in changed.items()
        if name != PLACEBO
    ]


_Verdicts: TypeAlias = dict[tuple[str, str], Evaluation]


def _flips(
    metric: str, name: str, first: _Verdicts, placebo: _Verdicts, own: _Verdicts, level: float
) -> Flips:
    cases = [x for x in first if x[0] == metric and x in placebo and x in own]
    noise = [float(first[x].passed != placebo[x].passed) for x in cases]
    signal = [float(first[x].passed != own[x].passed) for x in cases]
    sessions = [first[x].session_key or first[x].subject_id for x in cases]
    clusters = sessions if len({*sessions}) < len(sessions) else None
    if not cases:
        return Flips(metric, name, 0, None, None)
    beyond: Estimate | None = None
    with suppress(NotEstimableError):
        beyond = paired_difference(noise, signal, level=level, clusters=clusters)
    return Flips(metric, name, len(cases), sum(signal) / len(cases), beyond)


def _verdicts(scores: Iterable[Evaluation]) -> _Verdicts:
    """A model's passes and fails, by metric and what they are of."""
    judged = (x for x in scores if x.evaluator.kind == "LLM" and x.passed is not None)
    return {(x.metric, x.subject_id): x for x in judged}
