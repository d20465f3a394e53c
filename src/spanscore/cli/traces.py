"""`spanscore traces`: agent traces with their verdicts."""

import argparse
from collections.abc import Iterator
from typing import Any

from spanscore.api import listing as messages
from spanscore.api.decoder import decode_score
from spanscore.api.v1.trace_service_pb2 import ListTracesRequest, TraceSummary
from spanscore.cli import score_lines, server
from spanscore.cli.options import argument
from spanscore.cli.terminal import print_json
from spanscore.store import listing, ordering


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    server.add_arguments(parser)
    server.add_conditions(parser, "traces")
    argument(
        parser, "--order-by FIELD", 'such as "latency desc"; else the newest first', default=""
    )


def run(args: argparse.Namespace) -> int:
    """List the traces. Returns the exit code."""
    server.check(args)
    found = _found(args)
    if args.json:
        for trace in found:
            print_json(_as_json(trace))
    else:
        score_lines.print_traces(found, args.limit, server.trace_url(args))
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
    found = server.of_store(
        args, lambda connection, place: listing.traces(connection, query, server.PAGE, place)
    )
    return map(messages.summary, found)


def _as_json(trace: TraceSummary) -> dict[str, Any]:
    scores = [decode_score(x) for x in trace.scores]
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
