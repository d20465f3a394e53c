"""`spanscore analytics`: figures over the scores of a server or a store, each with its n and an
interval.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spanscore.cli import analytics_tables as tables
from spanscore.cli import sources
from spanscore.cli.terminal import print_json
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.api.v1 import analytics_service_pb2 as pb

_UNITS: Final = ("hour", "day", "week", "month", "quarter", "year")
_CONDITIONS: Final = {
    "metric": "of this metric",
    "source": "from this source: spanscore, human, programmatic or another evaluator",
    "service": "of the service with this service.name",
    "agent": "of this agent",
    "environment": "of this deployment.environment.name",
    "service-version": "of this service.version",
    "model": "of traces whose first model call was of this model",
    "tool": "of traces that called this tool",
    "tag": "of traces with this tag",
    "evaluator": "by this evaluator",
    "judge-model": "by this model as judge",
    "rule": "by this rule of evaluation.rules",
}
_FIELDS: Final = {"service-version": "version", "judge-model": "judge_model", "tag": "tags"}
_LISTS: Final = frozenset({"tool", "tags"})
"""Fields with several values, of which one is to be this."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, (summary, declare) in _ACTIONS.items():
        action = actions.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        sources.add_arguments(action)
        action.add_argument("--json", action="store_true", help="print JSON, one object a line")
        declare(action)


def run(args: argparse.Namespace) -> int:
    """Print what is asked for. Returns the exit code."""
    if not args.server and (args.token_file or args.ca_file):
        raise InputError("--token-file and --ca-file: go with --server")
    method, request, items, show = _QUESTIONS[args.action](args)
    found = list(getattr(_answer(args, method, request), items))
    if args.json:
        from spanscore.cli.messages import as_json  # noqa: PLC0415 - tables need none

        for message in found:
            print_json(as_json(message))
    elif found:
        show(found)
    else:
        print("no such scores")
    return 0


def _answer(args: argparse.Namespace, method: str, request: Any) -> Any:
    if args.server:
        from spanscore.api.v1.analytics_service_pb2_grpc import (  # noqa: PLC0415 - as above
            AnalyticsServiceStub,
        )

        with sources.service(args, AnalyticsServiceStub) as ask:
            return ask(method, request)
    from spanscore.api.analytics import (  # noqa: PLC0415 - SQLAlchemy, which --server does not need
        ANSWERS,
    )
    from spanscore.api.servicer import Call  # noqa: PLC0415 - likewise

    return sources.read(
        args, lambda connection: ANSWERS[method](connection, request, Call(args.tenant or ""))
    )


_Question = tuple[str, Any, str, Callable[[list[Any]], None]]


def _summary(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import (  # noqa: PLC0415 - --help needs no protobuf
        analytics_service_pb2 as pb,
    )

    request = pb.SummarizeScoresRequest(
        selection=_selection(args), group_by=args.by or (), level=args.level
    )
    return "SummarizeScores", request, "summaries", tables.print_summaries


def _trend(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.QueryScoreTrendRequest(
        selection=_selection(args),
        group_by=args.by or (),
        level=args.level,
        unit=pb.TimeUnit.Value(f"TIME_UNIT_{args.unit.upper()}"),
        time_zone=args.time_zone or "",
    )
    return (
        "QueryScoreTrend",
        request,
        "trends",
        lambda found: tables.print_trends(found, args.time_zone),
    )


def _distribution(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    if args.bins < 1:
        raise InputError(f"--bins {args.bins}: give a number of at least 1")
    request = pb.QueryScoreDistributionRequest(
        selection=_selection(args), level=args.level, bins=args.bins, quantiles=args.quantile or ()
    )
    return "QueryScoreDistribution", request, "distributions", tables.print_distributions


def _compare(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    if args.at is None and not (args.before and args.after):
        raise InputError(
            "give --at TIME to compare what was before with what came after, or --before and"
            " --after"
        )
    before, after = _selection(args, args.before), _selection(args, args.after)
    at_ns = sources.since_ns(args.at, "--at")
    if at_ns is not None:
        before.end_ns = after.start_ns = at_ns
    request = pb.CompareScoresRequest(
        before=before, after=after, group_by=args.by or (), level=args.level
    )
    return "CompareScores", request, "comparisons", tables.print_comparisons


def _sessions(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    if not 1 <= args.limit <= _MAX_SESSIONS:
        raise InputError(f"--limit {args.limit}: give a number from 1 to {_MAX_SESSIONS}")
    request = pb.RankSessionsRequest(selection=_selection(args), page_size=args.limit)
    return "RankSessions", request, "sessions", tables.print_sessions


def _history(args: argparse.Namespace) -> _Question:
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.ListScoreHistoryRequest(
        metric=args.metric, trace_id=args.trace, session_id=args.session
    )
    return "ListScoreHistory", request, "scores", tables.print_history


def _selection(args: argparse.Namespace, more: str | None = None) -> "pb.ScoreSelection":
    """The scores that the options name; `more` is a further filter."""
    from spanscore.api.v1 import analytics_service_pb2 as pb  # noqa: PLC0415 - as above

    conditions = []
    for option in _CONDITIONS:
        values = getattr(args, option.replace("-", "_")) or ()
        field = _FIELDS.get(option, option)
        operator = ":" if field in _LISTS else " = "
        either = [f"{field}{operator}{_quoted(value)}" for value in values]
        conditions += [f"({' OR '.join(either)})"] if either else []
    conditions += [f"({x})" for x in (args.filter, more) if x]
    run_id = args.run.removeprefix("runs/")
    return pb.ScoreSelection(
        filter=" AND ".join(conditions),
        start_ns=sources.since_ns(args.since),
        end_ns=sources.since_ns(args.until, "--until"),
        run=f"runs/{run_id}" if run_id else "",
    )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _of_selection(parser: argparse.ArgumentParser) -> None:
    for option, what in _CONDITIONS.items():
        parser.add_argument(
            f"--{option}",
            metavar="NAME",
            action="append",
            help=f"only scores {what}; may be repeated",
        )
    parser.add_argument(
        "--filter", metavar="TEXT", help="only scores that meet this filter; see docs/analytics.md"
    )
    parser.add_argument("--run", metavar="ID", default="", help="the scores of this evaluation run")
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only what was scored since: 24h, or a UTC time as 2026-05-01",
    )
    parser.add_argument("--until", metavar="TIME", help="only what was scored before that time")


def _of_figures(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    parser.add_argument(
        "--by",
        metavar="NAME",
        action="append",
        help="keep apart: service, agent, model, tool, …; may be repeated",
    )
    _add_level(parser)


def _add_level(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--level", metavar="SHARE", type=float, help="the level of the intervals; default: 0.95"
    )


def _of_trend(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    parser.add_argument(
        "--unit", choices=_UNITS, default="day", help="how long each time is; default: day"
    )
    parser.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="by whose clocks days begin, as Europe/Berlin; default: UTC",
    )


def _of_distribution(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    _add_level(parser)
    parser.add_argument(
        "--bins", metavar="N", type=int, default=10, help="into how many bins; default: 10"
    )
    parser.add_argument(
        "--quantile",
        metavar="SHARE",
        type=float,
        action="append",
        help="such as 0.9; may be repeated",
    )


def _of_compare(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    parser.add_argument(
        "--at", metavar="TIME", help="compare what was scored before that time with what came after"
    )
    parser.add_argument(
        "--before", metavar="FILTER", help="""the first side, such as 'version = "1.4"'"""
    )
    parser.add_argument("--after", metavar="FILTER", help="the second side")


def _of_sessions(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=20, help="show so many at most; default: 20"
    )


def _of_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metric", metavar="METRIC", help="the metric whose scores to list")
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--trace", metavar="ID", help="of this agent trace or OpenTelemetry trace")
    subject.add_argument("--session", metavar="ID", help="of this session")


_MAX_SESSIONS: Final = 1000

_ACTIONS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "summary": ("what the scores of each metric come to", _of_figures),
    "trend": ("the same for each day, or another unit of time", _of_trend),
    "distribution": ("how values and labels are spread", _of_distribution),
    "compare": ("how two periods, two versions or any two filters differ", _of_compare),
    "sessions": ("the sessions of which most fails, first", _of_sessions),
    "history": ("all that was ever said of one trace or session by one metric", _of_history),
}

_QUESTIONS: dict[str, Callable[[argparse.Namespace], _Question]] = {
    "summary": _summary,
    "trend": _trend,
    "distribution": _distribution,
    "compare": _compare,
    "sessions": _sessions,
    "history": _history,
}
