"""External scores, which people, programs and other evaluators gave, joined to the turns that they are of."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from spanscore.model.headers import Headers, headers_of
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace

HUMAN, PROGRAMMATIC = "human", "programmatic"
"""The sources that are no evaluator."""


def stand_in_span_id(trace_id: str) -> str:
    """The span id that stands for "some span of this trace" where only the trace is known, and OTLP wants a parent.

    >>> stand_in_span_id("0af7651916cd43dd8448eb211c80319c")
    '23326507fc9e033c'
    """
    return hashlib.sha256(f"spanscore score {trace_id}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Turn:
    """What tells whether a score is of a turn: its OTel traces and spans, and the headers that it came with."""

    id: str
    trace_ids: tuple[str, ...]
    span_ids: str
    session_id: str | None
    session_key: str | None
    headers: Headers

    @classmethod
    def of(cls, trace: AgentTrace) -> "Turn":
        """These facts of an agent trace."""
        span_ids = " ".join(sorted(spans_of(trace)))  # as one text, since whoever reads large files keeps many
        key = trace.session_key
        return cls(trace.id, trace.trace_ids, span_ids, trace.session_id, key, headers_of(trace.target.resource))

    def has_span(self, span_id: str) -> bool:
        """Whether a span is known to be one of the turn's."""
        return bool(span_id) and span_id in self.span_ids.split(" ")


class Joined(NamedTuple):
    """Scores by what they are of. `of_no_turn` are of a trace with several turns, and of none that can be named.

    `scores` has the others: those that are joined to a turn, those of sessions, and those of traces that are not known.
    """

    scores: list[Evaluation]
    of_no_turn: list[Evaluation]


def join(scores: Iterable[Evaluation], turns: Iterable[AgentTrace]) -> Joined:
    """`scores`, each joined to the one of `turns` that it is of; of each source only the newest. See `Turns.join`."""
    return Turns(map(Turn.of, turns)).join(scores)


class Turns:
    """Turns, by the traces that scores name."""

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self._of_trace: dict[str, list[Turn]] = {}
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Know a turn."""
        for trace_id in turn.trace_ids:
            self._of_trace.setdefault(trace_id, []).append(turn)

    def join(self, scores: Iterable[Evaluation]) -> Joined:
        """`scores`, each with the agent trace that it is of as its subject, and of each source only the newest.

        Where a trace has several turns, a score is of the one that has its span; of a span that none has, or that
        several share, it is of none. What one tenant gave to a trace of another's is left out.
        """
        found, of_no_turn = [], []
        for score in scores:
            turns = self._of_trace.get(score.target.trace_id, []) if score.scope == "trace" else []
            own = [x for x in turns if x.headers == headers_of(score.target.resource)]
            named = own if len(own) == 1 else [x for x in own if x.has_span(score.target.span_id)]
            if len(named) == 1:
                found.append(_of_turn(score, named[0]))
            elif own:
                of_no_turn.append(score)
            elif not turns:
                found.append(score)
        return Joined(newest(found), newest(of_no_turn))

    def knows(self, trace_id: str) -> bool:
        """Whether a turn of this trace is among them."""
        return trace_id in self._of_trace


def _of_turn(score: Evaluation, turn: Turn) -> Evaluation:
    session_id = score.session_id or turn.session_id
    return replace(score, subject_id=turn.id, session_id=session_id, session_key=turn.session_key)


def spans_of(trace: AgentTrace) -> set[str]:
    """The ids of the spans that a turn is known to have: its target, its opening span and those of its calls."""
    found = {trace.target.span_id, trace.root_span_id, trace.opening_span_id}
    found.update(x.span_id for x in trace.model_calls)
    found.update(x.span_id for x in trace.tool_calls or ())
    found.update(x.span_id for x in trace.retrieved)
    return {x for x in found if x}


def newest(scores: Iterable[Evaluation]) -> list[Evaluation]:
    """Of each source's scores of one subject by one name the last given, in the order in which they were given.

    Who changes their mind gives a score again.
    """
    last: dict[tuple[object, ...], Evaluation] = {}
    for score in sorted(scores, key=lambda x: x.evaluated_at_ns):
        by = score.evaluator
        last[score.scope, score.subject_id, score.target.span_id, score.metric, by.source, by.name, by.author] = score
    return sorted(last.values(), key=lambda x: x.evaluated_at_ns)
