"""A run of a suite as a person reads it: cases by their trials, what kept them from passing, and
the whole.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spanscore.calibration import PassRate
from spanscore.cli import aggregates
from spanscore.cli.scored import judges
from spanscore.cli.terminal import on_one_line
from spanscore.metrics.session.agentic import reading
from spanscore.offline.summary import RunSummary
from spanscore.stats import Estimate, rate
from spanscore.suites import CaseResult, Run

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {"pass": "green", "fail": "red", "error": "bold red", "unmatched": "yellow"}
_MARKS = {"pass": "P", "fail": "F", "error": "E"}
_MAX_MARKS = 12
_ANY_WIDTH = 1_000
_MAX_REASONS = 200
_MAX_REASON_CHARS = 600


def print_run(output: "Console", run: Run, corrected: Iterable[PassRate]) -> None:
    """Print the table, then the reasons, then the whole, with what calibrations make of it."""
    from rich.text import Text  # noqa: PLC0415 - --help needs no rich

    output.print(Text(on_one_line(f"{run.suite.name}, run {run.run_id}", 200), "bold"))
    _print_cases(output, run)
    reasons = [(x.case.id, reason) for x in run.cases for reason in x.reasons]
    for case_id, reason in reasons[:_MAX_REASONS]:
        output.print(f"{on_one_line(case_id, 60)}, {on_one_line(reason, _MAX_REASON_CHARS)}")
    if len(reasons) > _MAX_REASONS:
        output.print(f"and {len(reasons) - _MAX_REASONS:,} more; --output has them all")
    if reasons:
        output.print()
    _print_whole(output, run)
    for rate_of_metric in corrected:
        output.print(aggregates.corrected_line(rate_of_metric))
    output.print(f"\n{judges(RunSummary.of(run.evaluations))}")


def _print_cases(output: "Console", run: Run) -> None:
    """The table of cases; where it is too wide, with each interval under its estimate."""
    wide = _case_table(run, " ")
    fits = (
        output.measure(wide, options=output.options.update(width=_ANY_WIDTH)).maximum
        <= output.width
    )
    output.print(wide if fits else _case_table(run, "\n"))
    output.print()


def _case_table(run: Run, gap: str) -> "Table":
    """A row for each case; `gap` stands between an estimate and its interval."""
    from rich.table import Table  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("case", "result", "trials", "n", "pass rate", "k", "pass@k", "pass^k"):
        table.add_column(
            heading,
            no_wrap=heading not in {"case", "trials"},
            overflow="fold",
            justify="right" if heading in {"n", "k"} else "left",
        )
    for case in run.cases:
        level = run.suite.agentic.level
        table.add_row(
            on_one_line(case.case.id, 60),
            Text(case.status, _STYLES[case.status]),
            _marks(case),
            str(case.n),
            estimated(rate(case.passed, case.n, level=level), gap=gap) if case.n else "-",
            str(case.odds["k"]),
            _odds(case.odds, "pass_at_k", gap),
            _odds(case.odds, "pass_pow_k", gap),
        )
    return table


def _print_whole(output: "Console", run: Run) -> None:
    counts = ", ".join(
        f"{run.count(x)} {x}" for x in ("pass", "fail", "error", "unmatched") if run.count(x)
    )
    output.print(f"{len(run.cases)} case{'s' if len(run.cases) > 1 else ''}: {counts}")
    if run.cases_that_pass:
        _print_estimate(output, "cases that pass", run.cases_that_pass)
    if run.pass_rate:
        _print_estimate(output, "trials that pass, over cases", run.pass_rate)
    _print_odds(output, run)
    if run.cases_that_pass and run.clusters_of(run.cases):
        output.print(
            "n counts sessions: cases that were recorded in one session are not independent."
        )
    if run.mean_score:
        _print_estimate(output, "mean score of 100", run.mean_score, digits=1)
    if run.suite.agentic.unit == "interaction":
        output.print(
            "n of pass@k and pass^k counts interactions, as some frameworks do; turns of one"
            " conversation are not independent trials."
        )


def _print_odds(output: "Console", run: Run) -> None:
    """pass@k and pass^k over cases, with their k and how each case's own are estimated."""
    ks = sorted({x.odds["k"] for x in run.cases if x.odds["n"]})
    if ks:
        output.print(
            f"k = {', '.join(map(str, ks))}; pass@k and pass^k of a case:"
            f" {run.suite.agentic.statistics}"
        )
    if len(ks) > 1:
        output.print(
            "pass@k and pass^k over cases: none, since the cases have different k; --k sets one"
            " for all"
        )
    at_k, pow_k = run.over_cases("pass_at_k"), run.over_cases("pass_pow_k")
    if at_k and pow_k:
        k = ks[0]
        _print_estimate(output, f"pass@{k} over cases ({at_k[1]})", at_k[0])
        _print_estimate(output, f"pass^{k} over cases ({pow_k[1]})", pow_k[0])
        if word := reading(at_k[0].value, pow_k[0].value):
            output.print(f"reading: {word}")


def _print_estimate(output: "Console", what: str, estimate: Estimate, digits: int = 2) -> None:
    output.print(f"{what}: {estimated(estimate, digits)}, n = {estimate.n}")


def _marks(result: CaseResult) -> str:
    marks = " ".join(_MARKS[x.status] for x in result.trials[:_MAX_MARKS])
    return marks + (
        f" +{len(result.trials) - _MAX_MARKS}" if len(result.trials) > _MAX_MARKS else ""
    )


def estimated(estimate: Estimate, digits: int = 2, gap: str = " ") -> str:
    """An estimate with its interval; `gap` stands between them."""
    limits = None if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
    return _ranged(estimate.value, limits, digits, gap)


def _odds(odds: Any, name: str, gap: str) -> str:
    low, high = odds[f"{name}_ci_low"], odds[f"{name}_ci_high"]
    return (
        "-"
        if odds[name] is None
        else _ranged(odds[name], None if low is None else (low, high), 2, gap)
    )


def _ranged(value: float, limits: tuple[float, float] | None, digits: int, gap: str) -> str:
    return f"{value:.{digits}f}" + (
        f"{gap}[{limits[0]:.{digits}f}, {limits[1]:.{digits}f}]" if limits else ""
    )
