"""Stored agent traces and scores: read, and listed in two lines each."""

import argparse
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from spanscore import config
from spanscore.api.convert import decode_score, decode_trace
from spanscore.api.v1 import trace_service_pb2 as pb
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.cli import server
from spanscore.cli.score_summary import STYLES
from spanscore.cli.terminal import Output, console, first_of, on_one_line, progress, styled, utc
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from spanscore.store.listing import TraceScores

_MAX_TURNS = 1000
_RUN = "runs/"
_CONDITIONS = ("since", "service", "session")


class Found(NamedTuple):
    """Agent traces, and the scores of these and of their sessions; others' scores among them."""

    traces: list[AgentTrace]
    scores: list[Evaluation]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say which agent traces."""
    server.add_selection(parser, "stored traces", limit=_MAX_TURNS)


def is_given(args: argparse.Namespace) -> bool:
    """Whether a store or a server is named."""
    return bool(args.store or args.server)


def is_run(args: argparse.Namespace, path: object) -> bool:
    """Whether what stands in a file's place names an evaluation run: `runs/ID`."""
    return is_given(args) and str(path).startswith(_RUN)


def check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together, and none at all. Raises InputError."""
    has_files = any(not str(x).startswith(_RUN) for x in args.path)
    server.require_place(args, elsewhere=has_files)
    conditions = [x for x in _CONDITIONS if getattr(args, x)]
    if not args.path and not is_given(args):
        how = "give PATH, or name a store by --store or a running server by --server"
        raise InputError(f"{how}; see spanscore {args.command} --help")
    if has_files and is_given(args) and not any(is_run(args, x) for x in args.path):
        raise InputError(f"{args.path[0]}: give either files, or --store or --server")
    if args.path and conditions:
        raise InputError(f"--{conditions[0]}: goes with --store or --server alone, without PATH")


def name(args: argparse.Namespace, *, failing: bool = False) -> str:
    """What is read, in words, without what may be a password."""
    parts = [f"{x} {value}" for x in _CONDITIONS if (value := getattr(args, x))]
    return ", ".join([f"stored turns{' that fail' if failing else ''}", *parts])


def read(args: argparse.Namespace, *, failing: bool = False) -> Found:
    """The agent traces that the options name, with what they were scored as they came; only those
    that are `failing`.

    Raises InputError where there is none, SpanscoreError where the store or server cannot be read.
    """
    found = (_of_server if args.server else _of_store)(args, failing=failing)
    if not found.traces:
        raise InputError(f"{name(args, failing=failing)}: no stored trace meets these conditions")
    return found


def of_run(args: argparse.Namespace, path: object) -> Found:
    """What an evaluation run scored, with those of its agent traces that are still stored."""
    scores = scores_of_run(args, path)
    ids = sorted({x.subject_id for x in scores if x.scope == "trace"})
    keys = sorted({x.subject_id for x in scores if x.scope == "session"})
    return Found(read_traces(args, ids, keys), scores)


def scores_of_run(args: argparse.Namespace, path: object) -> list[Evaluation]:
    """What an evaluation run scored. Raises InputError where that is nothing."""
    scores = list(list_scores(args, 0, run=str(path).removeprefix(_RUN), skipped=True))
    if not scores:
        raise InputError(f"{path}: no score of such a run; spanscore runs list has their ids")
    return scores


def list_scores(
    args: argparse.Namespace,
    limit: int,
    *,
    service: str | None = None,
    run: str = "",
    **conditions: Any,
) -> Iterator[Evaluation]:
    """Stored scores, at most `limit`; 0: all. Conditions are as of `listing.ScoreQuery`."""
    if args.server:
        request = ListScoresRequest(service_name=service, run=run and _RUN + run, **conditions)
        return map(decode_score, server.of_server(args, "Score", "ListScores", request, limit))
    from spanscore.store import listing  # noqa: PLC0415 - SQLAlchemy, which --server does not need

    tenant = server.tenant_of(args) or ""
    query = listing.ScoreQuery(service=service, run=run, tenant=tenant, **conditions)
    return server.of_store(args, listing.scores, query, limit)


def list_traces_in_store(args: argparse.Namespace, **more: Any) -> "Iterator[TraceScores]":
    """The agent traces that the options name, each with its scores; `more` of
    `listing.TraceQuery`.
    """
    from spanscore.store import listing  # noqa: PLC0415 - as above

    query = listing.TraceQuery(
        since_ns=server.since_ns(args.since),
        service=args.service,
        session_id=args.session,
        tenant=server.tenant_of(args) or "",
        **more,
    )
    return server.of_store(args, listing.traces, query, args.limit)


def list_traces_on_server(args: argparse.Namespace, **more: Any) -> "Iterator[pb.TraceSummary]":
    """The summaries of the agent traces that the options name; `more` of ListTracesRequest."""
    request = pb.ListTracesRequest(
        since_ns=server.since_ns(args.since),
        service_name=args.service,
        session_id=args.session,
        **more,
    )
    return server.of_server(args, "Trace", "ListTraces", request, args.limit)


def turns_of(args: argparse.Namespace) -> "list[tuple[TraceScores, str]]":
    """The turns that `--trace` stands for in the store, each with why it has no score.

    Raises InputError where nothing is stored under it.
    """
    from spanscore.evaluation import Unscored  # noqa: PLC0415 - as above
    from spanscore.store import listing  # noqa: PLC0415 - as above

    tenant = server.tenant_of(args) or ""
    turns = server.read(args, lambda x: listing.turns_of(x, args.trace, tenant))
    if not turns:
        why = "it may not be complete yet, be past its retention, or hold no GenAI spans"
        how = "--server HOST:PORT asks the running server, which knows"
        raise InputError(f"--trace {args.trace}: nothing is stored under it: {why}; {how}")
    unscored = Unscored(config.load(args.config).evaluation)
    return [(x, unscored.why(*x)) for x in turns]


def _of_store(args: argparse.Namespace, *, failing: bool) -> Found:
    from spanscore.store import external, lookup, records  # noqa: PLC0415 - as above
    from spanscore.store.stored_rows import key  # noqa: PLC0415 - as above

    traces = [x.trace for x in list_traces_in_store(args, failing=failing)]
    ids, keys = [x.id for x in traces], [key(x) for x in _keys(traces)]
    trace_ids = {x for trace in traces for x in trace.trace_ids}
    tenant = server.tenant_of(args) or ""

    def scores(connection: "Connection") -> list[Evaluation]:
        rows = lookup.newest_scores(connection, ids, keys, tenant)
        own = [x for some in records.undamaged_evaluations([y.record for y in rows]) for x in some]
        joined = external.of_traces(connection, trace_ids, ids, tenant)
        of_sessions = external.of_sessions(connection, keys, tenant)
        return [*own, *joined.scores, *joined.of_no_turn, *of_sessions]

    return Found(traces, server.read(args, scores))


def read_traces(
    args: argparse.Namespace, ids: Collection[str], keys: Collection[str] = ()
) -> list[AgentTrace]:
    """Those of these agent traces that are there, and all of the sessions with these keys."""
    if args.server:
        return _traces_on_server(args, ids, keys)
    from spanscore.store import lookup, placement  # noqa: PLC0415 - as above
    from spanscore.store.stored_rows import key  # noqa: PLC0415 - as above

    def traces(connection: "Connection") -> list[AgentTrace]:
        tenant = server.tenant_of(args) or ""
        turns = lookup.session_trace_ids(connection, [key(x) for x in keys], tenant)
        return list(placement.stored(connection, {*ids, *turns}))

    return server.read(args, traces)


def _of_server(args: argparse.Namespace, *, failing: bool) -> Found:
    traces = read_traces(args, [x.id for x in list_traces_on_server(args, failing=failing)])
    requests = [ListScoresRequest(trace_id=x.id) for x in traces]
    own = "scope = session"
    requests += [ListScoresRequest(session_id=x, filter=own) for x in _keys(traces)]
    scores: list[Evaluation] = []
    with server.service(args, "Score") as ask, progress("reading", len(requests)) as done:
        for one in requests:
            scores += map(decode_score, server.pages(ask, "ListScores", one, 0))
            done()
    return Found(traces, scores)


def _traces_on_server(
    args: argparse.Namespace, ids: Collection[str], keys: Collection[str]
) -> list[AgentTrace]:
    names, traces = {f"traces/{x}": None for x in ids}, []
    with server.service(args, "Trace") as ask:
        for key in keys:
            asked = pb.GetSessionRequest(name=f"sessions/{quote(key, safe='')}")
            if session := ask.or_none("GetSession", asked):
                names |= dict.fromkeys(session.traces)
        with progress("reading", len(names)) as done:
            for name in names:
                if message := ask.or_none("GetTrace", pb.GetTraceRequest(name=name)):
                    traces.append(decode_trace(message))
                done()
    return traces


def _keys(traces: Sequence[AgentTrace]) -> list[str]:
    return sorted({x.session_key for x in traces if x.session_key is not None})


_INDENT = 13
_NEWEST = "the newest {:,}; --limit shows more"
_MAX_NAMES = 6


def print_scores(scores: Iterable[Evaluation], limit: int, trace_url: str = "") -> int:
    """Print the scores, and return how many; `limit` is how many were asked for, 0: all;
    `trace_url` as configured.
    """
    output, count = console(), 0
    for score in scores:
        _print_score(output, score)
        _print_link(output, trace_url, score.target.trace_id)
        count += 1
    if count == limit != 0:
        output.print(_NEWEST.format(count))
    return count


def print_traces(traces: Iterable[pb.TraceSummary], limit: int, trace_url: str = "") -> None:
    """Print the traces; `limit` and `trace_url` are as of `print_scores`."""
    output, count = console(), 0
    for trace in traces:
        _print_trace(output, trace)
        _print_link(output, trace_url, trace.trace_ids[0] if trace.trace_ids else "")
        count += 1
    if not count:
        output.print("no trace is there that meets the conditions")
    elif count == limit:
        output.print(_NEWEST.format(count))


def _print_score(output: Output, score: Evaluation) -> None:
    word = score.shown_label or score.status
    value = "" if score.value is None else f"{score.value:.2f}"
    parts = (
        (_when(score.evaluated_at_ns), "dim"),
        (on_one_line(word, 12).ljust(7), STYLES.get(word, "")),
        (on_one_line(score.metric, 40).ljust(22), "bold"),
        (value.rjust(5), ""),
        (_of(score), "dim"),
        (on_one_line(score.service_name or "", 40), "dim"),
        (_source(score), "cyan"),
    )
    _print_line(output, parts)
    _print_below(output, score.reason)


def _print_trace(output: Output, trace: pb.TraceSummary) -> None:
    scores = [decode_score(x) for x in trace.scores]
    failing = [x for x in scores if x.is_failing]
    passing = [x for x in scores if x.passed]
    seconds = max(trace.ended_ns - trace.started_ns, 0) / 1e9
    style = "red" if failing else "green" if passing else "yellow"
    parts = (
        (_when(trace.started_ns), "dim"),
        (_verdict(len(scores), len(failing), len(passing)).ljust(14), style),
        (f"{seconds:.1f} s".rjust(8), ""),
        (f"trace {trace.trace_ids[0] if trace.trace_ids else trace.id}", "dim"),
        (on_one_line(trace.agent_name or trace.service_name, 40), ""),
        (on_one_line(f"session {trace.session_id}" if trace.session_id else "", 60), "dim"),
    )
    _print_line(output, parts)
    _print_below(output, trace.user_input)
    if failing:
        names = first_of([on_one_line(x.metric, 40) for x in failing], _MAX_NAMES)
        _print_below(output, f"failing: {names}", "red")
    if trace.unscored:
        _print_below(output, f"no score: {trace.unscored}", "yellow")


def _verdict(scores: int, failing: int, passing: int) -> str:
    if failing:
        return f"{failing} of {failing + passing} failing"
    if passing:
        return f"{passing} pass"
    return "no verdict" if scores else "no scores"


def _print_line(output: Output, parts: Iterable[tuple[str, str]]) -> None:
    line = styled("  ").join(styled(text, style) for text, style in parts if text)
    output.print(line, soft_wrap=True)


def _print_below(output: Output, text: str, style: str = "") -> None:
    if text:
        room = max(output.width - _INDENT, 20)
        output.print(styled(" " * _INDENT + on_one_line(text, room), style), soft_wrap=True)


def _print_link(output: Output, trace_url: str, trace_id: str) -> None:
    """Print the address of a trace on a line by itself, whole, however long it is."""
    if trace_url and trace_id:
        url = trace_url.replace("{trace_id}", on_one_line(trace_id, 64))
        output.print(styled(" " * _INDENT + url, "dim"), soft_wrap=True)


def _of(score: Evaluation) -> str:
    if score.scope == "session":
        return on_one_line(f"session {score.session_id or score.subject_id}", 60)
    if not score.target.trace_id and score.target.response_id:
        return on_one_line(f"response {score.target.response_id}", 60)
    return f"trace {score.target.trace_id or score.subject_id}"


def _source(score: Evaluation) -> str:
    by = score.evaluator
    if by.source is None:
        return ""
    return on_one_line(f"by {', '.join(filter(None, (by.source, by.author)))}", 60)


def _when(moment_ns: int) -> str:
    """Month, day and time in UTC; as wide whatever it is."""
    moment = utc(moment_ns)
    return f"{moment:%m-%d %H:%M}" if moment_ns else "-".ljust(11)
