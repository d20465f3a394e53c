"""Figures as people read them: a value with its interval, and on how many scores and sessions it
rests.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spanscore.cli import fitting
from spanscore.cli.plain_table import plain_table
from spanscore.cli.terminal import console, on_one_line, printable
from spanscore.time_zones import zone_of

if TYPE_CHECKING:
    from rich.table import Table

    from spanscore.api.v1 import analytics_service_pb2 as pb
    from spanscore.api.v1.score_pb2 import Score

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
        at = datetime.fromtimestamp(one.evaluated_at_ns // 10**9, UTC)
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

    def made(rows: fitting.Rows) -> "Table":
        words = [headings[at] for at in kept if at < len(texts)]
        table = plain_table(words, [headings[at] for at in kept if at >= len(texts)])
        for row in rows:
            table.add_row(*row)
        return table

    output = console()
    for whole, broken in _BREAKS:
        if fitting.width(output, made(shown)) <= output.width:
            break
        shown = [
            [
                x.replace(whole, broken) if number else x
                for x, number in zip(row, is_number, strict=True)
            ]
            for row in shown
        ]
    output.print(fitting.fitted(output, made, shown))
