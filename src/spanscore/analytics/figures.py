"""Means and pass rates from sums, with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spanscore import stats
from spanscore.calibration import Calibration
from spanscore.stats import Estimate, Moments, NotEstimableError
from spanscore.stats.distributions import student_quantile
from spanscore.stats.estimate import Interval
from spanscore.stats.means import rescaled, weighted_means
from spanscore.stats.weighted import corrected_mean
from spanscore.store.selections import Procedure

ONE_SESSION = (
    "all scores are of one session: how sessions differ cannot be seen, so there is no interval"
)
NO_VALUES = "no score has a value"
NO_VERDICTS = "no score is known to pass or to fail"
_TOO_LARGE = "values are too large to be added up"
_NO_SPREAD = "all values are equal and their scale is not recorded, so there is no interval"
_JUDGE = ("metric", "evaluator", "version", "model", "prompt", "embedding", "threshold")
_JUDGE_GROUPS = {1: "evaluator", 2: "evaluator_version", 3: "judge_model"}
"""By what of a judge figures can be grouped."""


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate, or the reason why there is none: then `estimate` is None.

    `units` are the scores it rests on, `clusters` the sessions (and traces without one) that these
    belong to. The estimate has no interval where there is none to be had; its note says why.
    """

    estimate: Estimate | None
    units: int
    clusters: int
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A pass rate freed of the judge's measured error, and the calibration that it rests on or why
    there is none.
    """

    estimate: Estimate | None
    note: str
    calibration: Calibration | None = None


def means_and_rates(
    values: Sequence[Moments],
    verdicts: Sequence[Moments],
    bounds: tuple[float, float],
    *,
    is_scaled: bool,
    level: float,
) -> tuple[list[Figure], list[Figure]]:
    """The mean of the values of each, and the share of the verdicts of each that pass.

    Where no scale is recorded (`is_scaled`) a mean has Student's interval of clusters.
    """
    of_values = values if is_scaled and math.isfinite(bounds[1] - bounds[0]) else ()
    found = share_figures([*of_values, *verdicts], NO_VERDICTS, level=level)
    scaled, rates = found[: len(of_values)], found[len(of_values) :]
    if not of_values:
        return [_unscaled(x, bounds, level) for x in values], rates
    means = [
        Figure(None, 0, 0, NO_VALUES)
        if x.estimate is None
        else replace(x, estimate=rescaled(x.estimate, bounds))
        for x in scaled
    ]
    return means, rates


def share_figures(found: Sequence[Moments], why_none: str, *, level: float) -> list[Figure]:
    """The weighted mean of each, without an interval where all is of one session."""
    estimates = iter(weighted_means([x for x in found if x.units], level=level))
    return [
        Figure(_of_several(next(estimates), x), x.units, x.clusters)
        if x.units
        else Figure(None, 0, 0, why_none)
        for x in found
    ]


def without_interval(found: Estimate, note: str) -> Estimate:
    """The estimate alone, and why it has no interval."""
    return Estimate(found.value, found.n, None, found.method, found.effective_n, note)


def _of_several(found: Estimate, moments: Moments) -> Estimate:
    return found if moments.clusters > 1 else without_interval(found, ONE_SESSION)


def _unscaled(found: Moments, bounds: tuple[float, float], level: float) -> Figure:
    if not found.units:
        return Figure(None, 0, 0, NO_VALUES)
    if not math.isfinite(bounds[1] - bounds[0]):
        return Figure(None, found.units, found.clusters, _TOO_LARGE)
    return Figure(_of_clusters(found, bounds, level), found.units, found.clusters)


def _of_clusters(found: Moments, bounds: tuple[float, float], level: float) -> Estimate:
    low, width = bounds[0], bounds[1] - bounds[0]
    value = low + width * found.value
    estimate = Estimate(value, found.clusters, None, "Student of clusters", found.effective_n)
    if found.clusters < 2:
        return without_interval(estimate, ONE_SESSION)
    spread = found.pulls * found.clusters / (found.clusters - 1)
    if not (width and spread):
        return without_interval(estimate, _NO_SPREAD)
    away = float(student_quantile((1 + level) / 2, found.clusters - 1)) * math.sqrt(spread) * width
    note = "the scale of the values is not recorded"
    interval = Interval(value - away, value + away, level)
    return Estimate(value, found.clusters, interval, estimate.method, estimate.effective_n, note)


def corrected(
    verdicts: Moments,
    judges: Sequence[Procedure],
    calibrations: Sequence[Calibration],
    level: float,
) -> Corrected | None:
    """The pass rate freed of the judge's error; None where no judge of this metric was calibrated.

    `judges` are the procedures whose `verdicts` these are.
    """
    used = sorted({_judge(x) for x in judges}, key=repr)
    of_metric = [x for x in calibrations if x.judge[0] in {judge[0] for judge in used}]
    if not of_metric or not verdicts.units:
        return None
    if len(used) > 1:
        return Corrected(None, _several(used))
    found = next((x for x in of_metric if x.judge == used[0]), None)
    if found is None:
        return Corrected(None, _other(used[0], of_metric))
    if verdicts.clusters < 2:
        return Corrected(None, f"not corrected: {ONE_SESSION}", found)
    return _estimated(
        found,
        lambda: corrected_mean(
            verdicts, found.confusion, level=level, design_effects=found.design_effects
        ),
    )


def corrected_difference(
    judged: Figure, sides: Sequence[Corrected | None], level: float
) -> Corrected | None:
    """The difference of two pass rates freed of the judges' errors; None where no judge of the
    metric was calibrated.

    `sides` are the corrected rates before and after.
    """
    before, after = sides
    if before is None or after is None or judged.estimate is None:
        return None
    rates = before.estimate, after.estimate
    if rates[0] is None or rates[1] is None:
        return Corrected(None, before.note if rates[0] is None else after.note)
    known = before.calibration
    if known is None or known != after.calibration:
        return _of_two(before, after, rates[0], rates[1])
    found = judged.estimate
    return _estimated(
        known,
        lambda: stats.corrected_difference(
            found, known.confusion, level=level, design_effects=known.design_effects
        ),
    )


def _of_two(before: Corrected, after: Corrected, old: Estimate, new: Estimate) -> Corrected:
    """The difference of rates that were corrected by calibrations of their own."""
    try:
        estimate = stats.difference_of_corrected(old, new)
    except NotEstimableError as reason:
        return Corrected(None, f"not corrected: {reason}")
    return Corrected(estimate, f"before: {before.note}; after: {after.note}")


def _estimated(found: Calibration, ask: Callable[[], Estimate]) -> Corrected:
    named = f"calibration of {found.date} on {found.confusion.n:.0f} labels"
    try:
        estimate = ask()
    except NotEstimableError as reason:
        return Corrected(None, f"not corrected by the {named}: {reason}", found)
    return Corrected(estimate, f"{named}; {estimate.note}" if estimate.note else named, found)


def _judge(made: Procedure) -> tuple[object, ...]:
    by = (
        made.evaluator,
        made.evaluator_version,
        made.judge_model,
        made.prompt_hash,
        made.embedding,
    )
    return made.metric, *by, made.threshold


def _several(judges: Sequence[tuple[object, ...]]) -> str:
    differs = [place for place in range(len(_JUDGE)) if len({x[place] for x in judges}) > 1]
    groups = [place for place in differs if place in _JUDGE_GROUPS]
    named = " and ".join(_JUDGE[x] for x in differs)
    if len({tuple(x[place] for place in groups) for x in judges}) == len(judges):
        advice = f"group by {' and '.join(_JUDGE_GROUPS[x] for x in groups)}"
    else:
        advice = "ask for a time in which one judge gave all"
    return f"not corrected: {len(judges)} judges that differ in {named} gave these scores; {advice}"


def _other(judge: tuple[object, ...], of_metric: Sequence[Calibration]) -> str:
    nearest = min(of_metric, key=lambda x: sum(a != b for a, b in zip(x.judge, judge, strict=True)))
    differs = [name for name, a, b in zip(_JUDGE, nearest.judge, judge, strict=True) if a != b]
    return f"not corrected: the calibration of {nearest.date} is of another {' and '.join(differs)}"
