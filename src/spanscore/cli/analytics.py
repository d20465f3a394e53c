"""`spanscore analytics`: figures over stored scores."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.api.v1.score_pb2 import STATUS_FAILED, STATUS_SKIPPED, Score
from spanscore.cli import server, terminal
from spanscore.cli.options import PLACE, Action, Declare, add_actions, add_config, argument
from spanscore.cli.terminal import Columns, first_of, on_one_line, print_items, printable, utc
from spanscore.errors import InputError
from spanscore.time_zones import zone_of

_UNITS: Final = ("hour", "day", "week", "month", "quarter", "year")
_MAX_SESSIONS: Final = 1000


def _answer(args: argparse.Namespace, method: str, request: Any) -> Any:
    if args.server:
        with server.service(args, "Analytics") as ask:
            return ask(method, request)
    from spanscore.api.analytics import ANSWERS  # noqa: PLC0415 - SQLAlchemy, which --server does not need
    from spanscore.api.servicer import Call  # noqa: PLC0415 - likewise

    call = Call(server.tenant_of(args) or "")
    return server.read(args, lambda connection: ANSWERS[method](connection, request, call))


def _request(args: argparse.Namespace, method: str) -> Any:
    """The request of a method: options are called as its fields. Raises InputError."""
    _require_fit(args)
    request = getattr(pb, f"{method}Request")
    names = request.DESCRIPTOR.fields_by_name
    sides = {"selection": None, **{x: vars(args).get(x) for x in ("before", "after")}}
    given = {**vars(args), **{x: _selection(args, y) for x, y in sides.items() if x in names}}
    if "unit" in names:
        given["unit"] = f"TIME_UNIT_{args.unit.upper()}"
    found = request(**{name: given[name] for name in names if name in given})
    if vars(args).get("at") is not None:
        found.before.end_ns = found.after.start_ns = server.since_ns(args.at, "--at")
    return found


def _require_fit(args: argparse.Namespace) -> None:
    """Raise InputError where numbers are out of range, or sides are missing."""
    if "bins" in args and args.bins < 1:
        raise InputError(f"--bins {args.bins}: give a number of at least 1")
    if "page_size" in args and not 1 <= args.page_size <= _MAX_SESSIONS:
        raise InputError(f"--limit {args.page_size}: give a number from 1 to {_MAX_SESSIONS}")
    if "at" in args and args.at is None and not (args.before and args.after):
        what = "give --at TIME to compare what was before with what came after"
        raise InputError(f"{what}, or --before and --after")


def _selection(args: argparse.Namespace, more: str | None) -> pb.ScoreSelection:
    """The scores that the options name; `more` is a further filter."""
    run_id = args.run.removeprefix("runs/")
    return pb.ScoreSelection(
        filter=" AND ".join(f"({x})" for x in (args.where, more) if x),
        start_ns=server.since_ns(args.since),
        end_ns=server.since_ns(args.until, "--until"),
        run=f"runs/{run_id}" if run_id else "",
    )


def _of_selection(parser: argparse.ArgumentParser) -> None:
    text = "only scores that meet this, as 'metric = coherence AND service = shop'"
    argument(parser, "--where FILTER", text)
    argument(parser, "--since TIME", "only what was scored since: 24h, or a UTC time as 2026-05-01")
    argument(parser, "--until TIME", "only what was scored before that time")
    argument(parser, "--run ID", "the scores of this evaluation run", default="")


def _of_figures(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    text = "keep apart: service, agent, model, tool, …"
    argument(parser, "--by NAME", text, repeated=True, dest="group_by")


def _of_trend(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    argument(parser, "--unit", "how long each time is; default: day", choices=_UNITS, default="day")
    argument(parser, "--time-zone ZONE", "whose days, such as Europe/Berlin; default: UTC")


def _of_distribution(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    argument(parser, "--bins N", "into how many bins; default: 10", default=10)
    argument(parser, "--quantile SHARE", "such as 0.9", repeated=True, dest="quantiles")


def _of_compare(parser: argparse.ArgumentParser) -> None:
    _of_figures(parser)
    argument(parser, "--at TIME", "compare what was scored before that time with what came after")
    argument(parser, "--before FILTER", """the first side, such as 'version = "1.4"'""")
    argument(parser, "--after FILTER", "the second side")


def _of_sessions(parser: argparse.ArgumentParser) -> None:
    _of_selection(parser)
    text = "show so many at most; default: 20"
    argument(parser, "-n/--limit N", text, default=20, dest="page_size")


def _of_history(parser: argparse.ArgumentParser) -> None:
    argument(parser, "metric METRIC", "the metric whose scores to list")
    subject = parser.add_mutually_exclusive_group(required=True)
    text = "of this agent trace or OpenTelemetry trace"
    argument(subject, "--trace ID", text, dest="trace_id")
    argument(subject, "--session ID", "of this session", dest="session_id")


_NAME_CHARS = 32
_NAMED_TIMES = 3
"""Times that a note of a trend names; of more it names how many there are."""


def figure(found: pb.ScoreFigure) -> str:
    """A value with its interval; without one, the value alone."""
    limits = f" [{found.low:.3f}, {found.high:.3f}]" if found.HasField("low") else ""
    return _optional(found, "value") + limits


def _optional(one: Any, field: str) -> str:
    """A field that may have no value."""
    return f"{getattr(one, field):.3f}" if one.HasField(field) else "-"


def _name(text: str) -> str:
    return on_one_line(text, _NAME_CHARS)


def _value(group: pb.ScoreGroup) -> str:
    return group.value if group.HasField("value") else "-"


def _groups(found: Sequence[pb.ScoreSummary | pb.ScoreComparison]) -> Columns:
    return (
        ("metric", lambda x: _name(x.metric)),
        ("source", lambda x: _name(x.source)),
        *((x.name, partial(_group, at)) for at, x in enumerate(found[0].groups)),
    )


def _group(at: int, one: pb.ScoreSummary | pb.ScoreComparison) -> str:
    return _name(_value(one.groups[at]))


_FIGURES: Final[Columns] = (
    ("scores", lambda x: f"{x.scores:,}"),
    ("sessions", lambda x: f"{x.sessions:,}"),
    ("mean", lambda x: figure(x.mean)),
    ("pass rate", lambda x: figure(x.pass_rate)),
    ("corrected", lambda x: figure(x.corrected_pass_rate)),
    ("missing", lambda x: f"{sum(y.count for y in x.missing):,}" if x.missing else "-"),
)


def print_summaries(found: Sequence[pb.ScoreSummary], _: object = None) -> None:
    """Print a row for each metric and group, then what a reader must know besides."""
    groups = _groups(found)
    _print_table(found, (*groups, *_FIGURES), len(groups))
    _print_notes({note: [] for one in found for note in _notes(one)})


def print_trends(found: Sequence[pb.ScoreTrend], args: argparse.Namespace) -> None:
    """Print a table for each metric and group, with a row for each time."""
    time_zone = args.time_zone or "UTC"
    zone = zone_of(time_zone)
    for one in found:
        groups = "".join(f"  {x.name}: {_value(x)}" for x in one.groups)
        print(printable(f"{one.metric}  {one.source}{groups}"))
        starts = [datetime.fromtimestamp(x.start_ns // 10**9, zone) for x in one.points]
        names = (f"{x:%Y-%m-%d %H:%M}" for x in starts)
        times = dict(zip(names, (x.summary for x in one.points), strict=True))
        rows = [[time, *(cell(x) for _, cell in _FIGURES)] for time, x in times.items()]
        numbers = [x for x, _ in _FIGURES]
        terminal.print_rows([f"from ({time_zone})", *numbers], numbers, rows)
        notes: dict[str, list[str]] = {}
        for time, summary in times.items():
            for note in _notes(summary):
                notes.setdefault(note, []).append(time)
        _print_notes(notes)


def print_distributions(found: Sequence[pb.ScoreDistribution], _: object) -> None:
    """Print the bins, labels and quantiles of each metric."""
    for one in found:
        print(printable(f"{one.metric}  {one.source}"))
        parts = [(f"{x.low:g} to {x.high:g}", f"{x.scores:,}", x.share) for x in one.bins]
        for x in one.labels:
            label = _name(x.label) if x.HasField("label") else "no label"
            parts.append((label, f"{x.scores:,}", x.share))
        quantiles = {f"quantile {x.share:g}": x.value for x in one.quantiles}
        notes = [x.note for *_, x in parts]
        notes += [f"{name}: {x.note}" for name, x in quantiles.items() if x.note]
        parts += [(name, "", x) for name, x in quantiles.items()]
        rows = [[name, scores, figure(x)] for name, scores, x in parts]
        numbers = ["scores", "share, or value"]
        terminal.print_rows(["", *numbers], numbers, rows)
        _print_notes({x: [] for x in notes if x})


def _sides(show: Callable[[pb.ScoreSummary], str], one: pb.ScoreComparison) -> str:
    return f"{show(one.before)} > {show(one.after)}"


_DIFFERENCES: Final[Columns] = (
    ("scores", partial(_sides, lambda x: f"{x.scores:,}")),
    ("mean", partial(_sides, lambda x: _optional(x.mean, "value"))),
    ("difference", lambda x: figure(x.mean_difference)),
    ("pass rate", partial(_sides, lambda x: _optional(x.pass_rate, "value"))),
    ("difference", lambda x: figure(x.pass_rate_difference)),
    ("corrected", lambda x: figure(x.corrected_pass_rate_difference)),
)


def print_comparisons(found: Sequence[pb.ScoreComparison], _: object) -> None:
    """Print both sides of each metric and group, and how they differ."""
    groups = _groups(found)
    _print_table(found, (*groups, *_DIFFERENCES), len(groups))
    names = ("mean_difference", "pass_rate_difference", "corrected_pass_rate_difference")
    notes = [getattr(one, name).note for one in found for name in names]
    _print_notes({note: [] for note in notes if note})


def _subject(one: pb.RankedSession) -> str:
    return on_one_line(one.session_id or one.name or "(its record is damaged)", 50)


_SESSION: Final[Columns] = (
    ("session or trace", _subject),
    ("service", lambda x: _name(x.service_name) or "-"),
    ("agent", lambda x: _name(x.agent_name) or "-"),
    ("scores", lambda x: f"{x.scores:,}"),
    ("judged", lambda x: f"{x.judged:,}"),
    ("failing", lambda x: f"{x.failing:,}"),
    ("fail rate", lambda x: _optional(x, "fail_rate")),
    ("mean", lambda x: _optional(x, "mean")),
)


def _by(one: Score) -> str:
    by = one.evaluator
    return _name(by.author or by.source or by.model or by.name)


def _label(one: Score) -> str:
    """The label of a score, or why it has no value."""
    if one.label:
        return _name(one.label)
    if one.status == STATUS_SKIPPED:
        return ", ".join(filter(None, ("skipped", _name(one.skip_cause))))
    return "failed" if one.status == STATUS_FAILED else "-"


_HISTORY: Final[Columns] = (
    ("time (UTC)", lambda x: f"{utc(x.evaluated_at_ns):%Y-%m-%d %H:%M:%S}"),
    ("by", _by),
    ("run", lambda x: _name(x.run.removeprefix("runs/")) or "-"),
    ("revision", lambda x: str(x.revision)),
    ("value", lambda x: f"{x.value:g}" if x.HasField("value") else "-"),
    ("label", _label),
)


def _action(
    summary: str, declare: Declare, method: str, show: Callable[[Any, argparse.Namespace], None]
) -> Action:
    """An action of a server, or of a store that the configuration names: what a method answers, the
    items of its first field, is printed.
    """

    def add(parser: argparse.ArgumentParser) -> None:
        declare(parser)
        add_config(parser, "the server's configuration, for its store")

    def ask(args: argparse.Namespace) -> int:
        server.require_place(args, elsewhere=bool(args.config))
        answer = _answer(args, method, _request(args, method))
        found = getattr(answer, answer.DESCRIPTOR.fields[0].name)
        if found or args.json:
            server.print_all(args, found, lambda x: show(x, args))
        else:
            print("no such scores")
        return 0

    return Action(summary, add, ask, (*PLACE, "json"))


def _table(columns: Columns) -> Callable[[Any, argparse.Namespace], None]:
    numbers = [heading for heading, _ in columns[3:]]
    return lambda found, _: print_items(columns, numbers, found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    add_actions(parser, ACTIONS)


_SUMMARY = "what the scores of each metric come to"
_TREND = "the same for each day, or another unit of time"
_DISTRIBUTION = "how values and labels are spread"
_COMPARE = "how two periods, two versions or any two filters differ"
_SESSIONS = "the sessions of which most fails, first"
_ALL = "all that was ever said of one trace or session by one metric"
ACTIONS = {
    "summary": _action(_SUMMARY, _of_figures, "SummarizeScores", print_summaries),
    "trend": _action(_TREND, _of_trend, "QueryScoreTrend", print_trends),
    "distribution": _action(
        _DISTRIBUTION, _of_distribution, "QueryScoreDistribution", print_distributions
    ),
    "compare": _action(_COMPARE, _of_compare, "CompareScores", print_comparisons),
    "sessions": _action(_SESSIONS, _of_sessions, "RankSessions", _table(_SESSION)),
    "history": _action(_ALL, _of_history, "ListScoreHistory", _table(_HISTORY)),
}


def _notes(one: pb.ScoreSummary) -> list[str]:
    """Why there is no interval or correction, what a correction rests on, and what is missing."""
    mean, rate, corrected = (x.note for x in (one.mean, one.pass_rate, one.corrected_pass_rate))
    notes = {"corrected": corrected}
    if one.scores:
        notes = {"mean": mean, "pass rate": rate if rate != mean else "", **notes}
    found = [f"{one.metric}, {what}: {note}" for what, note in notes.items() if note]
    for x in one.missing:
        status = "failed" if x.status == STATUS_FAILED else "skipped"
        found.append(f"{one.metric}, missing: {x.count:,} {status}, {x.cause}")
    if one.least_sampling < 1:
        how = f"some by {one.least_sampling:g}; weighted by the inverse"
        found.append(f"{one.metric}: sampled, {how}")
    return found


def _print_notes(notes: dict[str, list[str]]) -> None:
    """Print each note, with the times that it is of."""
    for note, times in notes.items():
        print(printable(note) + (f" ({first_of(times, _NAMED_TIMES)})" if times else ""))


def _print_table(found: Sequence[Any], columns: Columns, texts: int) -> None:
    print_items(columns, [heading for heading, _ in columns[texts:]], found)
