"""Agent traces in files, each with the scores of it in these files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spanscore.cli import compared_files, exported, recorded
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.received_scores import read_external, read_own
from spanscore.report.scored import join
from spanscore.store import ordering, trace_measures
from spanscore.store.listing import NEWEST_FIRST, TraceQuery, TraceScores

PATH_HELP = (
    f"{recorded.PATH_HELP}: of agents' spans, of scores that a server exported, or of both; JSON"
    " lines of `spanscore eval` too; without any, a store or server is read"
)


def traces(paths: Sequence[Path], query: TraceQuery) -> list[TraceScores]:
    """The agent traces in these files that a query wants, in its order.

    A trace of which the files contain scores alone is what these say of it. Raises InputError where
    a file contains neither traces nor scores.
    """
    found = [x for x in _found(paths) if query.wants(x) and _known_ns(x) >= (query.since_ns or 0)]
    return ordering.arranged(found, [query.order], _ORDERS)


def _found(paths: Sequence[Path]) -> list[TraceScores]:
    of_scores = [x for x in paths if compared_files.is_readable(x)]
    of_telemetry = [x for x in paths if x not in of_scores]
    scores = [score for path in of_scores for score in exported.listed(path)]
    rebuilt: list[AgentTrace] = []
    if of_telemetry:
        telemetry = recorded.loaded(of_telemetry)
        scores += read_own(telemetry.spans, telemetry.logs)
        scores += read_external(telemetry.spans, telemetry.logs)
        try:
            rebuilt = recorded.rebuilt(telemetry, of_telemetry)
        except InputError:
            if not scores:
                raise
    joined = join(rebuilt, scores)
    found = [TraceScores(x, _evaluations(joined.of_turn.get(x.id, ()))) for x in rebuilt]
    return found + [
        TraceScores(_shown_by(own[0]), own)
        for own in map(_evaluations, joined.strays.values())
        if not all(x.is_external for x in own)
    ]


def _evaluations(scored: Iterable[Any]) -> list[Evaluation]:
    return [x.raw for x in scored]


def _shown_by(score: Evaluation) -> AgentTrace:
    """What a score shows of the trace that it is of."""
    target = score.target
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=target.start_ns,
        ended_ns=target.end_ns,
        session_id=score.session_id,
        session_key=score.session_key,
        agent_name=score.agent_name,
        service_name=score.service_name,
    )


def _known_ns(found: TraceScores) -> int:
    """When it was scored last; when the agent ended, where it was not."""
    return max((x.evaluated_at_ns for x in found.scores), default=found.trace.ended_ns)


_ORDERS: Final[Mapping[str, Callable[[TraceScores], int | None]]] = {
    NEWEST_FIRST.field: _known_ns,
    "started_ns": lambda x: x.trace.started_ns,
    "latency": lambda x: x.trace.ended_ns - x.trace.started_ns,
    "tokens": lambda x: trace_measures.tokens(x.trace),
    "tool_errors": lambda x: trace_measures.tool_errors(x.trace),
}
"""As `listing.TRACE_ORDERS`; a file does not say when a trace was stored, so its last score
stands for that.
"""
