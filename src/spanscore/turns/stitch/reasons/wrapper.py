"""One run reported by an SDK and by hooks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Groups, Reason, latest


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperClue(Clue):
    """Which side of a wrapped run a trace may be."""

    is_wrapper: bool
    """Whether it has an agent and no model call: these may be in the trace that it wraps."""

    is_wrapped: bool
    """Whether its outermost span records neither input nor output: the wrapper may."""


class Wrapper(Reason):
    """A trace wraps the run that another one reports."""

    words = (
        "an agent that records no model call, around the only trace of the session with the "
        "same question and the same answer whose outermost step records no input or output "
        "itself, or that is a model call alone"
    )
    after = ("session_agent",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"no model call", "no content"})

    def clue(self, trace: ReadTrace) -> WrapperClue | None:
        """Which side it may be."""
        is_answered = len(trace.traces) == 1 and not trace.lacks_answer
        is_wrapped = is_answered and trace.lacks_content
        if not trace.lacks_model_calls and not is_wrapped:
            return None
        return WrapperClue(
            is_wrapper=trace.lacks_model_calls,
            is_wrapped=is_wrapped,
            is_evidence=bool(trace.sessions),
        )

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """Session and question of a wrapper."""
        return _keys(part) if _is_wrapper(part) else ()

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """Session and question of a run that may be wrapped."""
        return _keys(part) if _is_wrapped(part) else ()

    def join(self, groups: Groups) -> None:
        """Join a run to the only wrapper around it, where that wraps no other."""
        wrappers = _by_content(groups.all)
        wrapped = defaultdict[str, list[TraceFragment]](list)
        for part in groups.all if wrappers else ():
            around = _around(part, wrappers)
            if len(around) == 1:
                wrapped[next(iter(around))].append(part)
        for wrapper in groups.all if wrapped else ():
            if len(wrapped[wrapper.trace_id]) == 1:
                groups.join(
                    wrapper,
                    wrapped[wrapper.trace_id][0],
                    reason=self.name,
                    since="it ran within that trace, with its session, question and answer",
                )


_Content: TypeAlias = tuple[str | None, str | None, str]
"""Question, answer and session."""


def _is_wrapper(part: TraceFragment) -> bool:
    clue = part.clue(WrapperClue)
    return clue is not None and clue.is_wrapper


def _is_wrapped(part: TraceFragment) -> bool:
    clue = part.clue(WrapperClue)
    return clue is not None and clue.is_wrapped


def _keys(part: TraceFragment) -> Iterable[str]:
    return (stitch_keys.wrapper(session, part.question) for session in part.sessions)


def _by_content(parts: Iterable[TraceFragment]) -> Mapping[_Content, Sequence[TraceFragment]]:
    found = defaultdict[_Content, list[TraceFragment]](list)
    for part in parts:
        for session in part.sessions if _is_wrapper(part) else ():
            found[part.question, part.answer, session].append(part)
    return found


def _around(
    part: TraceFragment, wrappers: Mapping[_Content, Sequence[TraceFragment]]
) -> dict[str, TraceFragment]:
    """The wrappers with the content of a run that ran around it, by trace id."""
    found: dict[str, TraceFragment] = {}
    for session in part.sessions if _is_wrapped(part) and part.question is not None else ():
        same = wrappers.get((part.question, part.answer, session), ())
        near = latest(same, part.started_ns)
        found.update((other.trace_id, other) for other in near if part.ended_ns <= other.ended_ns)
    return found
