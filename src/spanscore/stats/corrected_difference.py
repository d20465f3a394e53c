"""How far two pass rates differ, freed of the errors of the judges that gave the verdicts."""

import math
from dataclasses import replace
from typing import Any

from spanscore.arrays import np
from spanscore.stats.agreement import Confusion
from spanscore.stats.crossing import crossing
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level

_STEPS = 1024
_NO_GAIN = 1e-9
_CUT = "cut to {:g}: the judge's error alone would explain more than was found"
_WEAK = "the labels leave it open whether the judge is better than chance"


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
