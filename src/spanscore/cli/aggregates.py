"""Means and pass rates as commands print them: with n, an interval, and what a calibration makes of
them.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spanscore.calibration import Calibration, PassRate, Verdict, pass_rates
from spanscore.cli.fitting import Rows, fitted
from spanscore.cli.score_blocks import table
from spanscore.cli.terminal import on_one_line, printable
from spanscore.cli.unscored import is_not_set_up
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.model.score import Evaluation
from spanscore.offline.summary import Counts, RunSummary
from spanscore.stats import Estimate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_HEADINGS = (
    "metric",
    "mean",
    "95 %",
    "n",
    "scores",
    "passed",
    "pass rate",
    "95 %",
    "skipped",
    "failed",
)
_NARROW_HEADINGS = ("metric", "mean, 95 %", "n", "pass rate, 95 %", "traces or sessions")
_WIDE = 116
"""From this width on the longest name of a metric and all columns stand side by side."""


def as_texts(estimate: Estimate | None) -> tuple[str, str]:
    """A value and its interval, in two columns."""
    if estimate is None:
        return "-", ""
    limits = estimate.interval
    return f"{estimate.value:.2f}", f"[{limits.low:.2f}, {limits.high:.2f}]" if limits else ""


def print_means(output: "Console", summary: RunSummary) -> None:
    """Print, for each metric, how many scores there are, their mean, how many pass, and what became
    of the others.

    `n` counts what is independent: sessions, and traces that belong to none. A metric for which no
    judge or embedding is configured is left out. Where the output is narrow, intervals and counts
    stand below each other.
    """
    narrow = output.width < _WIDE
    unset: dict[str, int] = {}
    for found in summary.outcomes:
        if is_not_set_up(found.evaluation):
            name = found.evaluation.metric
            unset[name] = unset.get(name, 0) + found.count
    rows = []
    for name, counts in summary.counts.items():
        own = replace(counts, skipped=counts.skipped - unset.get(name, 0))
        if own.scored or own.skipped or own.failed:
            estimates = summary.mean(name), summary.pass_rate(name)
            cells = _narrow_cells(own, *estimates) if narrow else _cells(own, *estimates)
            rows.append((on_one_line(name, 40), *cells))
    if not rows:
        return
    output.print(fitted(output, partial(_table, narrow), rows))


def _table(narrow: bool, rows: Rows) -> "Table":
    made = table(*(_NARROW_HEADINGS if narrow else _HEADINGS))
    for row in rows:
        made.add_row(*row)
    return made


def _cells(own: Counts, of_all: Estimate | None, passing: Estimate | None) -> tuple[str, ...]:
    return (
        *as_texts(of_all),
        str(of_all.n) if of_all else "-",
        *(str(count) if count else "-" for count in (own.scored, own.passed)),
        *as_texts(passing),
        *(str(count) if count else "-" for count in (own.skipped, own.failed)),
    )


def _narrow_cells(
    own: Counts, of_all: Estimate | None, passing: Estimate | None
) -> tuple[str, ...]:
    passed = f"{own.passed} of {own.scored} passed"
    states = {"skipped": own.skipped, "failed": own.failed}
    without = [f"{count} {name}" for name, count in states.items() if count]
    scored = "" if not own.scored else passed if own.has_labels else f"{own.scored} scored"
    return (
        "\n".join(as_texts(of_all)).rstrip(),
        str(of_all.n) if of_all else "-",
        "\n".join(as_texts(passing)).rstrip(),
        "\n".join(filter(None, (scored, *without))),
    )


def corrections(settings: Settings, summary: RunSummary) -> list[str]:
    """A line for each pass rate of a metric that was ever calibrated, corrected or why not."""
    kept = _kept(settings)
    if not kept:
        return []
    verdicts = summary.verdicts({calibration.judge[0] for calibration in kept})
    return [corrected_line(rate) for rate in pass_rates(verdicts, kept) if rate.note]


def calibrated(settings: Settings, evaluations: Sequence[Evaluation]) -> list[PassRate]:
    """The pass rates of metrics that were ever calibrated."""
    [found] = by_calibrations(
        settings, [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None]
    )
    return found


def by_calibrations(settings: Settings, *runs: Sequence[Verdict]) -> list[list[PassRate]]:
    """For each of `runs` the pass rates of metrics that were ever calibrated."""
    kept = _kept(settings)
    return [
        [rate for rate in pass_rates(verdicts, kept) if rate.note] if kept else []
        for verdicts in runs
    ]


def corrected_line(rate: PassRate) -> str:
    """A pass rate by the judge, and corrected, in a line."""
    judged = (
        f"{printable(rate.metric)}: pass rate by the judge {' '.join(as_texts(rate.judged))}, n ="
        f" {rate.judged.n}"
    )
    if rate.corrected is None:
        return f"{judged}; {rate.note}"
    return f"{judged}; corrected {' '.join(as_texts(rate.corrected))} ({rate.note})"


def _kept(settings: Settings) -> list[Calibration]:
    """The calibrations in the configured store; where it cannot be read that is said, and rates
    stay as they are.
    """
    from spanscore.store import (  # noqa: PLC0415 - SQLAlchemy takes longer to import than a file to score
        calibrations,
    )

    try:
        records = calibrations.kept(settings.store)
    except SpanscoreError as error:
        print(
            f"spanscore: warning: pass rates are not corrected: {printable(str(error))}",
            file=sys.stderr,
        )
        return []
    operators = (x.record for x in records if not x.tenant)
    return [found for x in operators if (found := Calibration.from_json(x)) is not None]
