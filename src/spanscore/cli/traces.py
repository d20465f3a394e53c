"""`spanscore traces`: agent traces with their verdicts."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spanscore.api import listing as messages
from spanscore.api.v1.trace_service_pb2 import ListTracesRequest, TraceSummary
from spanscore.cli import score_files, score_lines, server, trace_files
from spanscore.cli.options import argument
from spanscore.cli.terminal import print_json
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.received_scores import read_external, read_own
from spanscore.report.results import join
from spanscore.store import listing, ordering, stored_rows
from spanscore.store.listing import NEWEST_FIRST, TraceQuery, TraceScores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "path PATH", PATH_HELP, type=Path, nargs="*")
    server.add_arguments(parser)
    server.add_conditions(parser, "traces")
    argument(
        parser,
        "--order-by FIELD",
        (f'{", ".join(listing.TRACE_ORDERS)}, as in "latency desc"; else the newest first'),
        default="",
    )


def run(args: argparse.Namespace) -> int:
    """List the traces. Returns the exit code."""
    server.check(args)
    found = _found(args)
    if args.json:
        for trace in found:
            print_json(_as_json(trace))
    else:
        score_lines.print_traces(found, args.limit)
    return 0


def _found(args: argparse.Namespace) -> Iterator[TraceSummary]:
    since_ns = server.since_ns(args.since)
    if args.server:
        request = ListTracesRequest(
            failing=args.failing,
            since_ns=since_ns,
            service_name=args.service,
            session_id=args.session,
            order_by=args.order_by,
        )

        return server.of_server(args, "Trace", request, "ListTraces", "traces", args.limit)
    orders = listing.TRACE_ORDERS
    order = ordering.parse(args.order_by, orders, alone=orders) or (listing.NEWEST_FIRST,)
    query = listing.TraceQuery(
        order=order[0],
        failing=args.failing,
        since_ns=since_ns,
        service=args.service,
        session_id=args.session,
        tenant=args.tenant or "",
    )
    if args.path:
        found: Iterator[listing.TraceScores] = islice(
            traces_in_files(args.path, query), args.limit or None
        )
        return map(messages.summary, found)
    found = server.of_store(
        args, lambda connection, place: listing.traces(connection, query, server.PAGE, place)
    )
    return map(messages.summary, found)


def _as_json(trace: TraceSummary) -> dict[str, Any]:
    scores = [score_lines.evaluation(x) for x in trace.scores]
    return {
        **dict.fromkeys(_OPTIONAL),
        "id": trace.id,
        "trace_ids": list(trace.trace_ids),
        "started_ns": trace.started_ns,
        "ended_ns": trace.ended_ns,
        **{field.name: value for field, value in trace.ListFields() if field.name in _OPTIONAL},
        "model_calls": trace.model_calls,
        "failing": sorted({x.metric for x in scores if x.is_failing}),
        "scores": [x.to_json() for x in scores],
    }


_OPTIONAL = ("session_id", "agent_name", "service_name", "user_input", "final_output", "tool_calls")


PATH_HELP = (
    f"{trace_files.PATH_HELP}: of agents' spans, of scores that a server exported, or of both; JSON"
    " lines of `spanscore eval` too; without any, a store or server is read"
)


def traces_in_files(paths: Sequence[Path], query: TraceQuery) -> list[TraceScores]:
    """The agent traces in these files that a query wants, in its order.

    A trace of which the files contain scores alone is what these say of it. Raises InputError where
    a file contains neither traces nor scores.
    """
    found = [
        x
        for x in _found_in_files(paths)
        if query.wants(x) and _known_ns(x) >= (query.since_ns or 0)
    ]
    return ordering.arranged(found, [query.order], _ORDERS)


def _found_in_files(paths: Sequence[Path]) -> list[TraceScores]:
    of_scores = [x for x in paths if score_files.is_readable(x)]
    of_telemetry = [x for x in paths if x not in of_scores]
    scores = [score for path in of_scores for score in score_files.scores_of_lines(path)]
    rebuilt: list[AgentTrace] = []
    if of_telemetry:
        telemetry = trace_files.loaded(of_telemetry)
        scores += read_own(telemetry.spans, telemetry.logs)
        scores += read_external(telemetry.spans, telemetry.logs)
        try:
            rebuilt = trace_files.rebuilt(telemetry, of_telemetry)
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
    "tokens": lambda x: stored_rows.tokens(x.trace),
    "tool_errors": lambda x: stored_rows.tool_errors(x.trace),
}
"""As `listing.TRACE_ORDERS`; a file does not say when a trace was stored, so its last score
stands for that.
"""
