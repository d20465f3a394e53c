"""External scores, which people, programs and other evaluators gave, joined to the turns that they are of."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spanscore.model.headers import headers_of
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


def joined(score: Evaluation, turns: Sequence[AgentTrace]) -> Evaluation:
    """`score` with the agent trace that it is of as its subject, where that is known.

    `turns` are the agent traces of its OTel trace. Where there are several, it is of the one that has its span; of a
    span that none has, or that they share, it is of the whole trace and stays as it is.
    """
    if score.scope == "session":
        return score
    turns = [x for x in turns if is_of_one_tenant(score, x)]
    found = list(turns) if len(turns) == 1 else [x for x in turns if score.target.span_id in spans_of(x)]
    if len(found) != 1:
        return score
    session_id = score.session_id or found[0].session_id
    return replace(score, subject_id=found[0].id, session_id=session_id, session_key=found[0].session_key)


def is_of_one_tenant(score: Evaluation, turn: AgentTrace) -> bool:
    """Whether a score came with the headers that a turn came with: what one tenant sends is not put to another's."""
    return headers_of(score.target.resource) == headers_of(turn.target.resource)


def join(scores: Iterable[Evaluation], turns: Iterable[AgentTrace]) -> list[Evaluation]:
    """`scores`, each joined to the one of `turns` that it is of, and only the newest of each source."""
    turns_of: dict[str, list[AgentTrace]] = {}
    for turn in turns:
        for trace_id in turn.trace_ids:
            turns_of.setdefault(trace_id, []).append(turn)
    return newest(joined(x, turns_of.get(x.target.trace_id, ())) for x in scores)


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
