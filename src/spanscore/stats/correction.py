"""A pass rate freed of its judge's measured error: Rogan and Gladen's estimate, with all that is unsure about it."""

import math
from typing import Any

import numpy as np

from spanscore.stats.agreement import Confusion
from spanscore.stats.distributions import normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level

_ADDED = 2.0
_NO_GAIN = 1e-9
_WEAK = "the labels leave it open whether the judge is better than chance"


def corrected_rate(passed: float, n: float, judge: Confusion, *, level: float = 0.95) -> Estimate:
    """The true pass rate behind a judge that passed `passed` of `n`, from its errors on labelled units.

    Rogan and Gladen (1978): (rate + specificity - 1) / (sensitivity + specificity - 1). The interval of Lang and
    Reiczigel (2014, "Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity")
    counts the sampling of the labels and of the `n` units, which may be an effective number. Both are cut to 0..1; the
    note says when the estimate was.

    Raises NotEstimableError where the labels are of one class, or the judge is no better than chance on them: then no
    rate can be told from its verdicts. One that may be no better, by so few labels, is noted and not refused: to
    take only the lucky draws of weak judges would leave intervals that hold the rate too seldom.

    >>> estimate = corrected_rate(60, 100, Confusion(45, 5, 10, 40))
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.571, 0.4, 0.74)
    """
    require_level(level)
    if not 0 <= passed <= n or n <= 0:
        raise ValueError(f"{passed:g} of {n:g}: the first is from 0 to the second")
    sensitivity, specificity = judge.sensitivity(level), judge.specificity(level)
    _refuse_chance(sensitivity, specificity)
    found = (passed / n + specificity.value - 1) / (sensitivity.value + specificity.value - 1)
    value = min(1.0, max(0.0, found))
    counts = judge.true_pass, judge.false_fail, judge.false_pass, judge.true_fail
    low, high = (float(x) for x in corrected_limits(passed, n, counts, level))
    notes = [f"cut to {value:g}: the judge's error alone would explain more than was found"] if value != found else []
    notes += [_WEAK] if _is_weak(judge, level) else []
    return Estimate(
        value,
        int(n),
        Interval(min(low, value), max(high, value), level),
        "Lang and Reiczigel",
        float(n),
        "; ".join(notes),
    )


def _refuse_chance(sensitivity: Estimate, specificity: Estimate) -> None:
    if sensitivity.value + specificity.value - 1 <= _NO_GAIN:
        raise NotEstimableError(
            f"the judge is no better than chance: it passes {sensitivity.value:.0%} of what passes and "
            f"{1 - specificity.value:.0%} of what fails"
        )


def _is_weak(judge: Confusion, level: float) -> bool:
    """Whether the labels leave it open that the judge is no better than chance."""
    sensitivity, of_passes = _shrunk(judge.true_pass, judge.true_pass + judge.false_fail, _ADDED)
    specificity, of_fails = _shrunk(judge.true_fail, judge.true_fail + judge.false_pass, _ADDED)
    reach = normal_quantile((1 + level) / 2) * math.sqrt(of_passes + of_fails)
    return bool(sensitivity + specificity - 1 <= reach)


def corrected_limits(passed: Any, n: Any, judge: tuple[Any, Any, Any, Any], level: float) -> tuple[Any, Any]:
    """Lang and Reiczigel's limits; `judge` has the counts of a Confusion. All may be arrays.

    From 0 to 1 where their shrunk sensitivity and specificity leave nothing above chance.
    """
    true_pass, false_fail, false_pass, true_fail = judge
    z = normal_quantile((1 + level) / 2)
    share, share_error = _shrunk(passed, n, z * z)
    sensitivity, sensitivity_error = _shrunk(true_pass, true_pass + false_fail, _ADDED)
    specificity, specificity_error = _shrunk(true_fail, true_fail + false_pass, _ADDED)
    gain = np.maximum(sensitivity + specificity - 1, _NO_GAIN)
    value = (share + specificity - 1) / gain
    error = np.sqrt(share_error + value**2 * sensitivity_error + (1 - value) ** 2 * specificity_error)
    half = z * error / gain
    shift = 2 * z * z * (value * sensitivity_error - (1 - value) * specificity_error)
    told = gain > _NO_GAIN
    low, high = np.clip(value + shift - half, 0, 1), np.clip(value + shift + half, 0, 1)
    return np.where(told, low, 0.0), np.where(told, high, 1.0)


def _shrunk(c: Any, n: Any, added: float) -> tuple[Any, Any]:
    """The share with `added` units of one half, and its squared standard error."""
    share = (c + added / 2) / (n + added)
    return share, share * (1 - share) / (n + added)
