"""`spanscore analytics`: figures over stored scores."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.api.v1.score_pb2 import Score
from spanscore.cli import server, terminal
from spanscore.cli.options import Action, add_actions, add_json, argument
from spanscore.cli.terminal import console, on_one_line, plain_table, print_json, printable, utc
from spanscore.errors import InputError
from spanscore.time_zones import zone_of

if TYPE_CHECKING:
    from rich.table import Table


_UNITS: Final = ("hour", "day", "week", "month", "quarter", "year")
_CONDITIONS: Final = {
    "metric": "of this metric",
    "service": "of the service with this service.name",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    add_actions(parser, _ACTIONS, _add_where)


def _add_where(parser: argparse.ArgumentParser) -> None:
    server.add_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is asked for. Returns the exit code."""
    if not args.server and (args.token_file or args.ca_file):
        raise InputError("--token-file and --ca-file: go with --server")
    method, request, items, show = _ACTIONS[args.action].run(args)
    found = list(getattr(_answer(args, method, request), items))
    if args.json:
        from spanscore.cli.server import as_json  # noqa: PLC0415 - tables need none

        for message in found:
            print_json(as_json(message))
    elif found:
        show(found)
    else:
        print("no such scores")
    return 0


def _answer(args: argparse.Namespace, method: str, request: Any) -> Any:
    if args.server:
        with server.service(args, "Analytics") as ask:
            return ask(method, request)
    from spanscore.api.analytics import (  # noqa: PLC0415 - SQLAlchemy, which --server does not need
        ANSWERS,
    )
    from spanscore.api.servicer import Call  # noqa: PLC0415 - likewise

    return server.read(
        args, lambda connection: ANSWERS[method](connection, request, Call(args.tenant or ""))
    )


_Question = tuple[str, Any, str, Callable[[list[Any]], None]]


def _summary(args: argparse.Namespace) -> _Question:
    request = pb.SummarizeScoresRequest(selection=_selection(args), group_by=args.by or ())
    return "SummarizeScores", request, "summaries", print_summaries


def _trend(args: argparse.Namespace) -> _Question:
    request = pb.QueryScoreTrendRequest(
        selection=_selection(args),
        group_by=args.by or (),
        unit=pb.TimeUnit.Value(f"TIME_UNIT_{args.unit.upper()}"),
        time_zone=args.time_zone or "",
    )
    return (
        "QueryScoreTrend",
        request,
        "trends",
        lambda found: print_trends(found, args.time_zone),
    )


def _distribution(args: argparse.Namespace) -> _Question:
    if args.bins < 1:
        raise InputError(f"--bins {args.bins}: give a number of at least 1")
    request = pb.QueryScoreDistributionRequest(
        selection=_selection(args), bins=args.bins, quantiles=args.quantile or ()
    )
    return "QueryScoreDistribution", request, "distributions", print_distributions


def _compare(args: argparse.Namespace) -> _Question:
    if args.at is None and not (args.before and args.after):
        raise InputError(
            "give --at TIME to compare what was before with what came after, or --before and"
            " --after"
        )
    before, after = _selection(args, args.before), _selection(args, args.after)
    at_ns = server.since_ns(args.at, "--at")
    if at_ns is not None:
        before.end_ns = after.start_ns = at_ns
    request = pb.CompareScoresRequest(before=before, after=after, group_by=args.by or ())
    return "CompareScores", request, "comparisons", print_comparisons


def _sessions(args: argparse.Namespace) -> _Question:
    if not 1 <= args.limit <= _MAX_SESSIONS:
        raise InputError(f"--limit {args.limit}: give a number from 1 to {_MAX_SESSIONS}")
    request = pb.RankSessionsRequest(selection=_selection(args), page_size=args.limit)
    return "RankSessions", request, "sessions", print_sessions


def _history(args: argparse.Namespace) -> _Question:
    request = pb.ListScoreHistoryRequest(
        metric=args.metric, trace_id=args.trace, session_id=args.session
    )
    return "ListScoreHistory", request, "scores", print_history


def _selection(args: argparse.Namespace, more: str | None = None) -> "pb.ScoreSelection":
    """The scores that the options name; `more` is a further filter."""
    conditions = []
    for option in _CONDITIONS:
        either = [f"{option} = {_quoted(value)}" for value in getattr(args, option) or ()]
        conditions += [f"({' OR '.join(either)})"] if either else []
    conditions += [f"({x})" for x in (args.filter, more) if x]
    run_id = args.run.removeprefix("runs/")
    return pb.ScoreSelection(
        filter=" AND ".join(conditions),
        start_ns=server.since_ns(args.since),
        end_ns=server.since_ns(args.until, "--until"),
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
    argument(parser, "--filter TEXT", "only scores that meet this filter; see docs/analytics.md")
    argument(parser, "--run ID", "the scores of this evaluation run", default="")
    argument(parser, "--since TIME", "only what was scored since: 24h, or a UTC time as 2026-05-01")
    argument(parser, "--until TIME", "only what was scored before that time")


def _of_figures(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    argument(parser, "--by NAME", "keep apart: service, agent, model, tool, …", repeated=True)


def _of_trend(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    argument(parser, "--unit", "how long each time is; default: day", choices=_UNITS, default="day")
    argument(parser, "--time-zone ZONE", "whose days, such as Europe/Berlin; default: UTC")


def _of_distribution(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    argument(parser, "--bins N", "into how many bins; default: 10", default=10)
    argument(parser, "--quantile SHARE", "such as 0.9", repeated=True)


def _of_compare(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    argument(parser, "--at TIME", "compare what was scored before that time with what came after")
    argument(parser, "--before FILTER", """the first side, such as 'version = "1.4"'""")
    argument(parser, "--after FILTER", "the second side")


def _of_sessions(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    argument(parser, "-n/--limit N", "show so many at most; default: 20", default=20)


def _of_history(parser: argparse.ArgumentParser) -> None:
    argument(parser, "metric METRIC", "the metric whose scores to list")
    subject = parser.add_mutually_exclusive_group(required=True)
    argument(subject, "--trace ID", "of this agent trace or OpenTelemetry trace")
    argument(subject, "--session ID", "of this session")


_MAX_SESSIONS: Final = 1000

_ACTIONS = {
    "summary": Action("what the scores of each metric come to", _of_figures, _summary),
    "trend": Action("the same for each day, or another unit of time", _of_trend, _trend),
    "distribution": Action("how values and labels are spread", _of_distribution, _distribution),
    "compare": Action(
        "how two periods, two versions or any two filters differ", _of_compare, _compare
    ),
    "sessions": Action("the sessions of which most fails, first", _of_sessions, _sessions),
    "history": Action(
        "all that was ever said of one trace or session by one metric", _of_history, _history
    ),
}


_NAME_CHARS = 32
_NAMED_TIMES = 3
"""Times that a note of a trend names; of more it names how many there are."""

_BREAKS = (" [", "\n["), (", ", ",\n"), (" > ", " >\n")
"""Where figures are broken, one after the other, until a table fits."""

_FIGURES = ("scores", "sessions", "mean", "pass rate", "corrected", "missing")


def print_summaries(found: "Sequence[pb.ScoreSummary]") -> None:
    """Print a row for each metric and group, then what a reader must know besides."""
    names = [x.name for x in found[0].groups]
    _print_table(
        ("metric", "source", *names), _FIGURES, [[*_named(x), *_figures(x)] for x in found]
    )
    _print_notes(found)


def print_trends(found: "Sequence[pb.ScoreTrend]", time_zone: str | None) -> None:
    """Print a table for each metric and group, with a row for each time."""
    zone = zone_of(time_zone or "UTC")
    for one in found:
        groups = "".join(f"  {x.name}: {_value(x)}" for x in one.groups)
        print(f"{printable(one.metric)}  {printable(one.source)}{printable(groups)}")
        times = [
            datetime.fromtimestamp(x.start_ns // 10**9, zone).strftime("%Y-%m-%d %H:%M")
            for x in one.points
        ]
        rows = [
            [time, *_figures(point.summary)] for time, point in zip(times, one.points, strict=True)
        ]
        _print_table((f"from ({time_zone or 'UTC'})",), _FIGURES, rows)
        _print_notes_of_times([x.summary for x in one.points], times)


def print_distributions(found: "Sequence[pb.ScoreDistribution]") -> None:
    """Print the bins, labels and quantiles of each metric."""
    for one in found:
        print(f"{printable(one.metric)}  {printable(one.source)}")
        rows = [[f"{x.low:g} to {x.high:g}", f"{x.scores:,}", figure(x.share)] for x in one.bins]
        for label in one.labels:
            named = on_one_line(label.label, _NAME_CHARS) if label.HasField("label") else "no label"
            rows.append([named, f"{label.scores:,}", figure(label.share)])
        rows += [[f"quantile {x.share:g}", "", figure(x.value)] for x in one.quantiles]
        _print_table(("",), ("scores", "share, or value"), rows)
        shares = [*(x.share.note for x in one.bins), *(x.share.note for x in one.labels)]
        _print_lines(
            [
                *shares,
                *(f"quantile {x.share:g}: {x.value.note}" for x in one.quantiles if x.value.note),
            ]
        )


def print_comparisons(found: "Sequence[pb.ScoreComparison]") -> None:
    """Print both sides of each metric and group, and how they differ."""
    names = [x.name for x in found[0].groups]
    is_corrected = any(x.HasField("corrected_pass_rate_difference") for x in found)
    columns = (
        "scores",
        "mean",
        "difference",
        "pass rate",
        "difference",
        *(["corrected"] if is_corrected else []),
    )
    rows = []
    for one in found:
        sides = one.before, one.after
        figures = [
            " > ".join(f"{x.scores:,}" for x in sides),
            " > ".join(_bare(x.mean) for x in sides),
            figure(one.mean_difference),
            " > ".join(_bare(x.pass_rate) for x in sides),
            figure(one.pass_rate_difference),
            *([figure(one.corrected_pass_rate_difference)] if is_corrected else []),
        ]
        rows.append([*_named(one), *figures])
    _print_table(("metric", "source", *names), columns, rows)
    differences = [
        (x.mean_difference, x.pass_rate_difference, x.corrected_pass_rate_difference) for x in found
    ]
    notes = [x.note for some in differences for x in some]
    _print_lines(notes)


def print_sessions(found: "Sequence[pb.RankedSession]") -> None:
    """Print a row for each session, the worst first."""
    rows = [
        [
            on_one_line(one.session_id or one.name or "(its record is damaged)", 50),
            on_one_line(one.service_name, _NAME_CHARS) or "-",
            on_one_line(one.agent_name, _NAME_CHARS) or "-",
            f"{one.scores:,}",
            f"{one.judged:,}",
            f"{one.failing:,}",
            f"{one.fail_rate:.3f}" if one.HasField("fail_rate") else "-",
            f"{one.mean:.3f}" if one.HasField("mean") else "-",
        ]
        for one in found
    ]
    _print_table(
        ("session or trace", "service", "agent"),
        ("scores", "judged", "failing", "fail rate", "mean"),
        rows,
    )


def print_history(found: "Sequence[Score]") -> None:
    """Print a row for each score, in the order of time."""
    rows = []
    for one in found:
        at = utc(one.evaluated_at_ns)
        by = (
            one.evaluator.author
            or one.evaluator.source
            or one.evaluator.model
            or one.evaluator.name
        )
        row = [
            at.strftime("%Y-%m-%d %H:%M:%S"),
            on_one_line(by, _NAME_CHARS),
            on_one_line(one.run.removeprefix("runs/"), _NAME_CHARS) or "-",
            str(one.revision),
            f"{one.value:g}" if one.HasField("value") else "-",
            on_one_line(one.label, _NAME_CHARS) or _status(one),
        ]
        rows.append(row)
    _print_table(("time (UTC)", "by", "run"), ("revision", "value", "label"), rows)


def _status(one: "Score") -> str:
    """Why a score has no value, where it has none."""
    if one.status == _SKIPPED:
        return (
            f"skipped, {on_one_line(one.skip_cause, _NAME_CHARS)}" if one.skip_cause else "skipped"
        )
    return "failed" if one.status == _FAILED else "-"


def figure(found: "pb.ScoreFigure") -> str:
    """A value with its interval; without one, the value alone."""
    if not found.HasField("value"):
        return "-"
    if not found.HasField("low"):
        return f"{found.value:.3f}"
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _bare(found: "pb.ScoreFigure") -> str:
    return f"{found.value:.3f}" if found.HasField("value") else "-"


def _figures(one: "pb.ScoreSummary") -> list[str]:
    missing = sum(x.count for x in one.missing)
    return [
        f"{one.scores:,}",
        f"{one.sessions:,}",
        figure(one.mean),
        figure(one.pass_rate),
        figure(one.corrected_pass_rate) if one.HasField("corrected_pass_rate") else "-",
        f"{missing:,}" if missing else "-",
    ]


def _named(one: "pb.ScoreSummary | pb.ScoreComparison") -> list[str]:
    groups = [on_one_line(_value(x), _NAME_CHARS) for x in one.groups]
    return [on_one_line(one.metric, _NAME_CHARS), on_one_line(one.source, _NAME_CHARS), *groups]


def _value(group: "pb.ScoreGroup") -> str:
    return group.value if group.HasField("value") else "-"


def _print_notes(found: "Sequence[pb.ScoreSummary]") -> None:
    """Print why there is no interval or correction, what a correction rests on, and what is
    missing.
    """
    _print_lines(note for one in found for note in _notes(one))


def _print_notes_of_times(found: "Sequence[pb.ScoreSummary]", times: Sequence[str]) -> None:
    """Print the same, each note with the times that it is of."""
    at: dict[str, list[str]] = {}
    for one, time in zip(found, times, strict=True):
        for note in _notes(one):
            at.setdefault(note, []).append(time)
    for note, own in at.items():
        more = f" and {len(own) - _NAMED_TIMES} more" if len(own) > _NAMED_TIMES else ""
        print(f"{printable(note)} ({', '.join(own[:_NAMED_TIMES])}{more})")


def _notes(one: "pb.ScoreSummary") -> list[str]:
    figures = (
        ("mean", one.mean),
        ("pass rate", one.pass_rate),
        ("corrected", one.corrected_pass_rate),
    )
    notes = []
    for what, estimate in figures:
        if (
            estimate.note
            and (one.scores or what == "corrected")
            and (what != "pass rate" or estimate.note != one.mean.note)
        ):
            notes.append(f"{one.metric}, {what}: {estimate.note}")
    notes += [f"{one.metric}, missing: {x.count:,} {_reason(x)}" for x in one.missing]
    if one.least_sampling < 1:
        notes.append(
            f"{one.metric}: sampled, some by {one.least_sampling:g}; weighted by the inverse"
        )
    return notes


def _reason(missing: "pb.MissingReason") -> str:
    return f"{'failed' if missing.status == _FAILED else 'skipped'}, {missing.cause}"


_SKIPPED, _FAILED = 2, 3  # STATUS_SKIPPED, STATUS_FAILED


def _print_lines(notes: Iterable[str]) -> None:
    for note in dict.fromkeys(x for x in notes if x):
        print(printable(note))


def _print_table(
    texts: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print the columns that say something; where there is no room, limits stand below the values
    they are of.
    """
    headings = (*texts, *numbers)
    kept = [at for at in range(len(headings)) if at == 0 or any(row[at] != "-" for row in rows)]
    is_number = [at >= len(texts) for at in kept]
    shown = [[row[at] for at in kept] for row in rows]

    def made(rows: terminal.Rows) -> "Table":
        words = [headings[at] for at in kept if at < len(texts)]
        table = plain_table(words, [headings[at] for at in kept if at >= len(texts)])
        for row in rows:
            table.add_row(*row)
        return table

    output = console()
    for whole, broken in _BREAKS:
        if terminal.table_width(output, made(shown)) <= output.width:
            break
        shown = [
            [
                x.replace(whole, broken) if number else x
                for x, number in zip(row, is_number, strict=True)
            ]
            for row in shown
        ]
    output.print(terminal.fitted(output, made, shown))
