"""Means and pass rates as commands print them: with n, an interval, and what a calibration makes of them."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spanscore.calibration import Calibration, PassRate, Verdict, estimated, pass_rates
from spanscore.cli.scores import table
from spanscore.cli.terminal import on_one_line, printable
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.model.score import Evaluation
from spanscore.stats import Estimate

if TYPE_CHECKING:
    from rich.console import Console


def mean(evaluations: Sequence[Evaluation]) -> Estimate | None:
    """The mean of the values there are, its units the sessions and the traces of none; None where there is none."""
    verdicts = [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None]
    if not verdicts:
        return None
    low = min(min(x.scale[0], x.value) for x in verdicts)
    high = max(max(x.scale[1], x.value) for x in verdicts)
    return estimated([x.value for x in verdicts], verdicts, 0.95, (low, high))


def told(estimate: Estimate | None) -> tuple[str, str]:
    """A value and its interval, in two columns."""
    if estimate is None:
        return "-", ""
    limits = estimate.interval
    return f"{estimate.value:.2f}", f"[{limits.low:.2f}, {limits.high:.2f}]" if limits else ""


def print_means(output: "Console", evaluations: Sequence[Evaluation]) -> None:
    """Print, for each metric, how many scores there are, their mean, how many pass, and what became of the others.

    `n` counts what is independent: sessions, and traces that belong to none.
    """
    shown = table("metric", "mean", "95 %", "n", "scores", "passed", "pass rate", "95 %", "skipped", "failed")
    for metric in dict.fromkeys(x.metric for x in evaluations):
        own = [x for x in evaluations if x.metric == metric]
        of_all = mean(own)
        rates = pass_rates([verdict for x in own if (verdict := Verdict.of(x)) is not None], ())
        states = Counter(x.status for x in own)
        counts = (states["scored"], sum(x.passed is True for x in own))
        shown.add_row(
            on_one_line(metric, 40),
            *told(of_all),
            str(of_all.n) if of_all else "-",
            *(str(count) if count else "-" for count in counts),
            *told(rates[0].judged if len(rates) == 1 else None),
            *(str(states[name]) if states[name] else "-" for name in ("skipped", "failed")),
        )
    output.print(shown)


def corrections(settings: Settings, evaluations: Sequence[Evaluation]) -> list[str]:
    """A line for each pass rate of a metric that was ever calibrated, corrected or why not."""
    return [corrected_line(rate) for rate in calibrated(settings, evaluations)]


def calibrated(settings: Settings, evaluations: Sequence[Evaluation]) -> list[PassRate]:
    """The pass rates of metrics that were ever calibrated."""
    [found] = by_calibrations(settings, [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None])
    return found


def by_calibrations(settings: Settings, *runs: Sequence[Verdict]) -> list[list[PassRate]]:
    """For each of `runs` the pass rates of metrics that were ever calibrated."""
    kept = _kept(settings)
    return [[rate for rate in pass_rates(verdicts, kept) if rate.note] if kept else [] for verdicts in runs]


def corrected_line(rate: PassRate) -> str:
    """A pass rate by the judge, and corrected, in a line."""
    judged = f"{printable(rate.metric)}: pass rate by the judge {' '.join(told(rate.judged))}, n = {rate.judged.n}"
    if rate.corrected is None:
        return f"{judged}; {rate.note}"
    return f"{judged}; corrected {' '.join(told(rate.corrected))} ({rate.note})"


def _kept(settings: Settings) -> list[Calibration]:
    """The calibrations in the configured store; where it cannot be read that is said, and rates stay as they are."""
    from spanscore.store import calibrations  # noqa: PLC0415 - SQLAlchemy takes longer to import than a file to score

    try:
        records = calibrations.kept(settings.store)
    except SpanscoreError as error:
        print(f"spanscore: warning: pass rates are not corrected: {printable(str(error))}", file=sys.stderr)
        return []
    return [found for x in records if (found := Calibration.from_json(x)) is not None]
