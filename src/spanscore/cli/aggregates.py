"""Means and pass rates as commands print them: with n, an interval, and what a calibration makes of
them.
"""

import sys
from collections import Counter
from collections.abc import Sequence
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
from spanscore.offline.summary import mean, pass_rate
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


def print_means(output: "Console", evaluations: Sequence[Evaluation]) -> None:
    """Print, for each metric, how many scores there are, their mean, how many pass, and what became
    of the others.

    `n` counts what is independent: sessions, and traces that belong to none. A metric for which no
    judge or embedding is configured is left out. Where the output is narrow, intervals and counts
    stand below each other.
    """
    narrow = output.width < _WIDE
    by_metric: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        if not is_not_set_up(evaluation):
            by_metric.setdefault(evaluation.metric, []).append(evaluation)
    if not by_metric:
        return
    rows = [
        (on_one_line(name, 40), *(_narrow_cells(own) if narrow else _cells(own)))
        for name, own in by_metric.items()
    ]
    output.print(fitted(output, partial(_table, narrow), rows))


def _table(narrow: bool, rows: Rows) -> "Table":
    made = table(*(_NARROW_HEADINGS if narrow else _HEADINGS))
    for row in rows:
        made.add_row(*row)
    return made


def _cells(own: Sequence[Evaluation]) -> tuple[str, ...]:
    of_all, states = mean(own), Counter(x.status for x in own)
    counts = (states["scored"], sum(x.passed is True for x in own))
    return (
        *as_texts(of_all),
        str(of_all.n) if of_all else "-",
        *(str(count) if count else "-" for count in counts),
        *as_texts(pass_rate(own)),
        *(str(states[name]) if states[name] else "-" for name in ("skipped", "failed")),
    )


def _narrow_cells(own: Sequence[Evaluation]) -> tuple[str, ...]:
    of_all, states = mean(own), Counter(x.status for x in own)
    labelled = any(x.passed is not None for x in own)
    passed = f"{sum(x.passed is True for x in own)} of {states['scored']} passed"
    without = [f"{states[name]} {name}" for name in ("skipped", "failed") if states[name]]
    scored = "" if not states["scored"] else passed if labelled else f"{states['scored']} scored"
    return (
        "\n".join(as_texts(of_all)).rstrip(),
        str(of_all.n) if of_all else "-",
        "\n".join(as_texts(pass_rate(own))).rstrip(),
        "\n".join(filter(None, (scored, *without))),
    )


def corrections(settings: Settings, evaluations: Sequence[Evaluation]) -> list[str]:
    """A line for each pass rate of a metric that was ever calibrated, corrected or why not."""
    return [corrected_line(rate) for rate in calibrated(settings, evaluations)]


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
