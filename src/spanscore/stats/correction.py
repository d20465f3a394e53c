"""Pass rates corrected for a judge's error."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spanscore.lazy_imports import np
from spanscore.stats.agreement import Confusion
from spanscore.stats.distributions import normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, crossing, require_level
from spanscore.stats.limits import Numbers, bounded_limits
from spanscore.stats.means import grouped

_NO_GAIN = 1e-9
_HALVINGS = 40
_WEAK = "the labels leave it open whether the judge is better than chance"
_CUT = "cut to {:g}: the judge's error alone would explain more than was found"
_AT_ODDS = "no rate goes well with both the labels and what was scored; were they drawn alike?"


@dataclass(frozen=True, slots=True)
class Counted:
    """`passed` of `n`, which may be arrays and effective numbers."""

    passed: Any
    n: Any

    @property
    def share(self) -> Any:
        """What passed, of all."""
        return self.passed / self.n

    def divided(self, effect: float) -> Counted:
        """As many independent units as give the same evidence, by the design effect."""
        return Counted(self.passed / effect, self.n / effect)


Counts = tuple[Counted, Counted, Counted]
"""What the judge passes: of the units in question, of the labelled passes, and of the labelled
fails.
"""


def corrected_rate(
    passed: float,
    n: float,
    judge: Confusion,
    *,
    level: float = 0.95,
    design_effects: tuple[float, float] = (1, 1),
) -> Estimate:
    """The true pass rate behind a judge that passed `passed` of `n`, from its errors on labelled
    units.

    Rogan and Gladen (1978): (rate + specificity - 1) / (sensitivity + specificity - 1). The
    interval holds the rates that a score test does not refuse; see `corrected_distance`. It counts
    the sampling of the labels and of the `n` units, which may be an effective number;
    `design_effects` are those of clusters on sensitivity and specificity. Both are cut to 0..1; the
    note says when the estimate was.

    Raises NotEstimableError where the labels are of one class, or the judge is no better than
    chance on them: then no rate can be told from its verdicts. One that may be no better, by so few
    labels, is noted and not refused: to take only the lucky draws of weak judges would leave
    intervals that hold the rate too seldom.

    >>> estimate = corrected_rate(60, 100, Confusion(45, 5, 10, 40))
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.571, 0.39, 0.75)
    """
    require_level(level)
    if not 0 <= passed <= n or n <= 0:
        raise ValueError(f"{passed:g} of {n:g}: the first is from 0 to the second")
    of_passes = Counted(judge.true_pass, judge.true_pass + judge.false_fail)
    of_fails = Counted(judge.false_pass, judge.false_pass + judge.true_fail)
    _require_gain(of_passes, of_fails)
    counts = (
        Counted(passed, n),
        of_passes.divided(design_effects[0]),
        of_fails.divided(design_effects[1]),
    )
    found = (passed / n - of_fails.share) / (of_passes.share - of_fails.share)
    value = min(1.0, max(0.0, found))
    notes = [_CUT.format(value)] if value != found else []
    limits = corrected_limits(counts, value, level)
    if limits is None:
        notes.append(_AT_ODDS)
        explained = Counted(n * (of_passes if value else of_fails).share, n)
        limits = corrected_limits((explained, *counts[1:]), value, level) or (value, value)
    notes += [_WEAK] if _is_weak(counts, level) else []
    return Estimate(value, int(n), Interval(*limits, level), "score", float(n), "; ".join(notes))


def _require_gain(of_passes: Counted, of_fails: Counted) -> None:
    for counted, name in ((of_passes, "pass"), (of_fails, "fail")):
        if not counted.n:
            raise NotEstimableError(f"no label says {name}")
    if of_passes.share - of_fails.share <= _NO_GAIN:
        raise NotEstimableError(
            f"the judge is no better than chance: it passes {of_passes.share:.0%} of what passes"
            f" and {of_fails.share:.0%} of what fails"
        )


def _is_weak(counts: Counts, level: float) -> bool:
    """Whether the labels leave it open that the judge is no better than chance, with a pass and a
    fail more of each.
    """
    more = [Counted(x.passed + 1, x.n + 2) for x in counts[1:]]
    error = math.sqrt(sum(x.share * (1 - x.share) / x.n for x in more))
    return bool(more[0].share - more[1].share <= normal_quantile((1 + level) / 2) * error)


def corrected_limits(counts: Counts, value: float, level: float) -> tuple[float, float] | None:
    """The least and the greatest rate that the score test does not refuse; None where it refuses
    all of 0..1.

    They lie either side of the estimate `value`: its distance is 0, or it was cut and is taken in.
    """
    reach = normal_quantile((1 + level) / 2)

    def is_accepted(rate: Any) -> Any:
        return abs(corrected_distance(counts, rate)) <= reach

    grid = np.append(np.linspace(0, 1, 129), value)
    accepted = grid[is_accepted(grid)]
    if not accepted.size:
        return None
    least, greatest = float(accepted.min()), float(accepted.max())
    below, above = max(0.0, least - 1 / 128), min(1.0, greatest + 1 / 128)
    low = 0.0 if least == 0 else crossing(is_accepted, below, least)
    high = 1.0 if greatest == 1 else -crossing(lambda x: is_accepted(-x), -above, -greatest)
    return min(low, value), max(high, value)


def corrected_distance(counts: Counts, rate: Any) -> Any:
    """How many standard errors the counts are from a true `rate`; all may be arrays.

    The numerator is what passes of the units - rate * what passes of the passes - (1 - rate) * what
    passes of the fails, whose mean is 0. Its variance is taken at the likeliest three shares under
    which it is 0, and has the factor N / (N - 1) of Miettinen and Nurminen (1985, "Comparative
    analysis of two rates"). It is their score test, which Martin Andres, Alvarez Hernandez and
    Herranz Tejedor (2011, "Inferences about a linear combination of proportions") have for any
    linear combination.
    """
    terms = list(zip((1.0, -rate, rate - 1), counts, strict=True))
    likeliest = _likeliest(terms)
    total = sum(x.n for _, x in terms)
    variance = sum(
        by * by * share * (1 - share) / x.n for (by, x), share in zip(terms, likeliest, strict=True)
    )
    distance = sum(by * x.share for by, x in terms)
    distance = np.where(abs(distance) < 1e-12, 0.0, distance)
    return distance / np.sqrt(np.maximum(variance * total / (total - 1), 1e-24))


def _likeliest(terms: Sequence[tuple[Any, Counted]]) -> list[Any]:
    """Of the shares whose sum, each times its factor, is 0 the likeliest.

    With Lagrange's multiplier each share p solves passed - n p = factor * multiplier * p (1 - p),
    and falls as that product grows. The sum is below 0 where the multiplier is twice the number of
    all units, above 0 at minus that.
    """
    high: Any = 2.0 * sum(x.n for _, x in terms)
    low = -high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        shares = [_pulled(x, by * middle) for by, x in terms]
        is_above = sum(by * share for (by, _), share in zip(terms, shares, strict=True)) > 0
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    return shares


def _pulled(x: Counted, pull: Any) -> Any:
    """The share p with passed - n p = pull * p (1 - p), from the side where the root loses no
    digits.
    """
    is_down = pull >= 0
    size = np.abs(pull)
    count = np.where(is_down, x.passed, x.n - x.passed)
    total = x.n + size
    share = 2 * count / (total + np.sqrt(np.maximum(total * total - 4 * size * count, 0.0)))
    return np.where(is_down, share, 1 - share)


_STEPS = 1024


def corrected_difference(
    found: Estimate,
    judge: Confusion,
    *,
    level: float = 0.95,
    design_effects: tuple[float, float] = (1, 1),
) -> Estimate:
    """The true difference of two pass rates behind the judged one, where one judge gave the
    verdicts of both.

    Rogan and Gladen's estimate (1978) of each rate is (rate + specificity - 1) / J, with Youden's J
    = sensitivity + specificity - 1, so that the true difference is the judged one by J: what the
    judge passes wrongly on both sides drops out. The interval has the differences d under which
    `found` - d * J is not refused to be 0, whose limits are combined from those of `found` and of J
    by the method of variance estimates recovery of Zou and Donner (2008, "Construction of
    confidence limits about effect measures"), and J's so from those of sensitivity and specificity.
    It counts the sampling of the labels once for both sides. `design_effects` are those of clusters
    on these two.

    Raises NotEstimableError where `found` has no interval, the labels are of one class, or the
    judge is no better than chance on them.

    >>> judged = Estimate(0.2, 400, Interval(0.1, 0.3, 0.95), "")
    >>> estimate = corrected_difference(judged, Confusion(90, 10, 20, 80))
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.286, 0.14, 0.45)
    """
    require_level(level)
    if found.interval is None:
        raise NotEstimableError(found.note or "the judged difference has no interval")
    gain, low, high = _youden(judge, level, design_effects)
    value = min(1.0, max(-1.0, found.value / gain))
    notes = [
        found.note,
        _CUT.format(value) if abs(found.value) > gain else "",
        _WEAK if low <= 0 else "",
    ]
    limits = _limits(found.value, found.interval, (gain, low, high), value)
    note = "; ".join(x for x in notes if x)
    return replace(found, value=value, interval=Interval(*limits, level), method="MOVER", note=note)


def difference_of_corrected(before: Estimate, after: Estimate) -> Estimate:
    """The difference of two rates that were corrected by calibrations of their own, after less
    before.

    Its limits are combined from those of the two as Zou and Donner (2008) combine them; the sides
    count as independent. Raises NotEstimableError where one of them has no interval.

    >>> before = Estimate(0.5, 100, Interval(0.4, 0.6, 0.95), "score")
    >>> after = Estimate(0.7, 100, Interval(0.6, 0.8, 0.95), "score")
    >>> found = difference_of_corrected(before, after)
    >>> round(found.value, 2), round(found.interval.low, 2), round(found.interval.high, 2)
    (0.2, 0.06, 0.34)
    """
    if before.interval is None or after.interval is None:
        raise NotEstimableError(before.note or after.note or "a corrected rate has no interval")
    value = after.value - before.value
    low = value - math.hypot(after.value - after.interval.low, before.interval.high - before.value)
    high = value + math.hypot(after.interval.high - after.value, before.value - before.interval.low)
    notes = dict.fromkeys(x for x in (before.note, after.note) if x)
    limits = Interval(max(-1.0, low), min(1.0, high), after.interval.level)
    return Estimate(value, before.n + after.n, limits, "MOVER", None, "; ".join(notes))


def _youden(
    judge: Confusion, level: float, design_effects: tuple[float, float]
) -> tuple[float, float, float]:
    """Youden's J of a judge on its labels, and its limits."""
    of_passes = judge.sensitivity(level, design_effects[0])
    of_fails = judge.specificity(level, design_effects[1])
    gain = of_passes.value + of_fails.value - 1
    if gain <= _NO_GAIN:
        raise NotEstimableError("the judge is no better than chance on the labels")
    sides = [(x.value, x.interval) for x in (of_passes, of_fails) if x.interval is not None]
    below = math.hypot(*(x - limits.low for x, limits in sides))
    above = math.hypot(*(limits.high - x for x, limits in sides))
    return gain, gain - below, min(1.0, gain + above)


def _limits(
    judged: float, interval: Interval, youden: tuple[float, float, float], value: float
) -> tuple[float, float]:
    """The least and the greatest difference that is not refused, from -1 to 1."""
    gain, low, high = youden

    def is_accepted(difference: Any) -> Any:
        distance = judged - difference * gain
        rising = np.where(difference >= 0, high - gain, gain - low)
        falling = np.where(difference >= 0, gain - low, high - gain)
        below = np.hypot(judged - interval.low, difference * rising)
        above = np.hypot(interval.high - judged, difference * falling)
        return (distance <= below) & (distance >= -above)

    grid = np.append(np.linspace(-1, 1, 2 * _STEPS + 1), value)
    accepted = grid[is_accepted(grid)]
    least, greatest = (
        float(min(accepted.min(initial=value), value)),
        float(max(accepted.max(initial=value), value)),
    )
    if least > -1:
        least = crossing(is_accepted, max(-1.0, least - 1 / _STEPS), least)
    if greatest < 1:
        greatest = -crossing(lambda x: is_accepted(-x), -min(1.0, greatest + 1 / _STEPS), -greatest)
    return min(least, value), max(greatest, value)


def prediction_powered_mean(
    labels: Sequence[float],
    scores: Sequence[float],
    other_scores: Sequence[float],
    *,
    level: float = 0.95,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean label of all units: `labels` and `scores` of the labelled ones, `other_scores` of
    the rest.

    Angelopoulos, Duchi and Zrnic (2023, "PPI++"): mean(label - t score) + t mean(other score), with
    the t that makes its variance least, from 0, the labels alone, to 1. Labelled and other units
    must be drawn alike. The interval is that of `mean` with this variance. `clusters` are those of
    the labelled and of the other units: what has the same one (the traces of a session) is not
    independent. n counts the labels, or their clusters. Raises NotEstimableError with fewer than
    two.

    >>> estimate = prediction_powered_mean(
    ...     [1, 0, 1, 1, 0, 1], [1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 1, 1, 0, 1, 1]
    ... )
    >>> round(estimate.value, 3), estimate.n
    (0.767, 6)
    """
    require_level(level)
    low, width = bounds[0], bounds[1] - bounds[0]
    y, f, rest = ((np.asarray(x, float) - low) / width for x in (labels, scores, other_scores))
    if len(y) < 2 or len(f) != len(y):
        raise NotEstimableError(f"it takes two labelled units at least, and there are {len(y)}")
    center, pulls = _powered(y, f, rest)
    shares = np.full(len(y), 1 / len(y))
    if clusters is not None:
        [shares] = grouped(clusters[0], shares)
        [pulls] = grouped([*clusters[0], *(clusters[1] if len(rest) else ())], pulls)
    if len(shares) < 2:
        raise NotEstimableError("it takes labels in two clusters at least")
    least, most = (low + width * float(x) for x in bounded_limits(center, shares, pulls, level))
    interval = Interval(least, most, level)
    method = f"PPI++ with power {float(_power(y, f, rest)):.2f}"
    return Estimate(low + width * float(center), len(shares), interval, method)


def powered_limits(
    labels: Numbers, scores: Numbers, others: Numbers, level: float
) -> tuple[Any, tuple[Any, Any]]:
    """The estimate and its limits on the scale 0..1; arrays may have further axes in front."""
    center, pulls = _powered(labels, scores, others)
    return center, bounded_limits(
        center, np.full(labels.shape[-1], 1 / labels.shape[-1]), pulls, level
    )


def _powered(labels: Numbers, scores: Numbers, others: Numbers) -> tuple[Any, Any]:
    """The estimate, and how far each unit pulls it: the labelled ones first."""
    n, more = labels.shape[-1], others.shape[-1]
    power = _power(labels, scores, others)[..., None]
    residuals, predicted = labels - power * scores, power * others
    center, pulls = (
        residuals.mean(-1, keepdims=True),
        (residuals - residuals.mean(-1, keepdims=True)) / n,
    )
    if more:
        far = predicted.mean(-1, keepdims=True)
        center, pulls = center + far, np.concatenate((pulls, (predicted - far) / more), -1)
    return np.clip(center[..., 0], 0, 1), pulls


def _power(y: Numbers, f: Numbers, others: Numbers) -> Any:
    """The t of least variance, within 0..1; the spread of the scores is that of all."""
    n, more = y.shape[-1], others.shape[-1]
    if not more:
        return np.zeros(y.shape[:-1])
    spread = np.concatenate((f, others), -1).var(-1, ddof=1) * (1 + n / more)
    products = (y - y.mean(-1, keepdims=True)) * (f - f.mean(-1, keepdims=True))
    covariance = products.sum(-1) / (n - 1)
    best = np.divide(covariance, spread, out=np.zeros_like(covariance), where=spread > 1e-12)
    return np.clip(best, 0, 1)
