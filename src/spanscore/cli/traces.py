"""`spanscore traces`: agent traces with their verdicts."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spanscore import config, suites
from spanscore.api import listing as messages
from spanscore.api.convert import decode_score, decode_trace
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.api.v1.trace_service_pb2 import GetTraceRequest, TraceSummary
from spanscore.cli import server, stored
from spanscore.cli.options import PLACE, add_config, argument
from spanscore.cli.terminal import print_json
from spanscore.errors import InputError
from spanscore.evaluation import Unscored
from spanscore.model.trace import AgentTrace
from spanscore.store import listing, ordering
from spanscore.suites import drafts

TAKES = (*PLACE, "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_config(parser, "the server's configuration, for its store")
    argument(parser, "--failing", "only traces that do not pass or were not measured")
    server.add_selection(parser, "traces")
    argument(parser, "--trace ID", "only of this trace")
    text = "add what is listed as cases to this suite, recordings beside it"
    argument(parser, "--suite FILE", text)
    text = 'such as "latency desc"; else the newest first'
    argument(parser, "--order-by FIELD", text, default="")


def run(args: argparse.Namespace) -> int:
    """List the traces. Returns the exit code."""
    server.require_place(args, elsewhere=bool(args.config))
    if args.suite and args.json:
        raise InputError("--suite and --json: give one of them")
    found = _found(args)
    if args.suite:
        print(_added(args, found))
    elif args.json:
        for trace in found:
            print_json(_as_json(trace))
    else:
        stored.print_traces(found, args.limit, server.trace_url(args))
    return 0


def _added(args: argparse.Namespace, found: Iterator[TraceSummary]) -> str:
    """Add the traces to the suite; what to do next."""
    path = Path(args.suite)
    patterns = config.load(args.config).judge.redact.patterns
    name = suites.load(path).name if path.exists() else path.stem
    scored = ((_whole(args, x), map(decode_score, x.scores)) for x in found)
    drafted = [drafts.draft(trace, scores, patterns, name) for trace, scores in scored]
    if not drafted:
        return "no trace is there that meets the conditions; nothing was written"
    count = drafts.add(path, drafted, name)
    beside = drafts.recording_of(path)
    new = f"{count} of {len(drafted)} cases are new in {path}, recorded in {beside}"
    return f"{new}. Fill in what is expected (TODO), then: spanscore test {path} {beside}"


def _whole(args: argparse.Namespace, summary: TraceSummary) -> AgentTrace:
    """The trace of a summary. Raises InputError where it was deleted meanwhile."""
    found = stored.read_traces(args, [summary.id])
    if not found:
        raise InputError(f"trace {summary.id}: it was deleted meanwhile; list the traces again")
    return found[0]


def _found(args: argparse.Namespace) -> Iterator[TraceSummary]:
    if args.trace:
        return _of_trace(args)
    if args.server:
        return stored.list_traces_on_server(args, failing=args.failing, order_by=args.order_by)
    orders = listing.TRACE_ORDERS
    order = ordering.parse(args.order_by, orders, alone=orders) or (listing.NEWEST_FIRST,)
    found = stored.list_traces_in_store(args, failing=args.failing, order=order[0])
    unscored = Unscored(config.load(args.config).evaluation)
    return (messages.summary(x, unscored.why(*x)) for x in found)


def _of_trace(args: argparse.Namespace) -> Iterator[TraceSummary]:
    """The turns of one trace. Raises InputError where nothing is stored of it."""
    if not args.server:
        yield from (messages.summary(*x) for x in stored.turns_of(args))
        return
    with server.service(args, "Trace") as ask:
        trace = decode_trace(ask("GetTrace", GetTraceRequest(trace_id=args.trace)))
    with server.service(args, "Score") as ask:
        answer = ask("ListScores", ListScoresRequest(trace_id=trace.id))
    scores = [decode_score(x) for x in answer.scores]
    yield messages.summary(listing.TraceScores(trace, scores), answer.unscored)


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


_OPTIONAL = (
    *("session_id", "agent_name", "service_name"),
    *("user_input", "final_output", "tool_calls", "unscored"),
)
