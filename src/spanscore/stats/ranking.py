"""How well graded scores tell passes from fails: the area under the ROC curve, and the threshold that does it best."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spanscore.stats.distributions import student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level

Numbers = NDArray[np.float64]

_HALVINGS = 60
_DOUBT = 8.0
"""On how many units a variance must rest before half of what it says below Hanley and McNeil's is believed."""
_FEW = 5
_MAX_CELLS = 2_000_000
"""Of resamples that are held at once: 16 MiB."""


def auc(labels: Sequence[bool], scores: Sequence[float], *, level: float = 0.95) -> Estimate:
    """The chance that a unit that passes has a higher score than one that fails, ties counting half.

    The interval is Newcombe's (2006, "Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic", method 5): the areas that the variance of Hanley and McNeil (1982), taken at each of them, does not
    refuse; of use at an area of 1 too. That variance supposes scores of one shape, so it is scaled by how DeLong's
    (1988), which supposes nothing, compares with it. Raises NotEstimableError where one class has no label.

    >>> estimate = auc([True, True, True, False, False], [0.9, 0.8, 0.4, 0.5, 0.1])
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.833, 0.18, 0.99)
    """
    require_level(level)
    high, low = _split(labels, scores)
    wins, losses = _placements(high, low), 1 - _placements(low, high)
    area = float(wins.mean())
    limits = area_limits(wins, losses, level)
    interval = Interval(float(limits[0]), float(limits[1]), level)
    return Estimate(area, len(labels), interval, "Newcombe, method 5, scaled by DeLong")


def area_limits(wins: Numbers, losses: Numbers, level: float) -> tuple[Any, Any]:
    """Limits from the share of fails below each pass (`wins`) and of passes above each fail (`losses`), ties halved.

    The units are on the last axis. Where DeLong's variance is the smaller one it is believed as far as it rests on
    many units, which near an area of 1 are few.
    """
    m, n = wins.shape[-1], losses.shape[-1]
    area = wins.mean(-1)
    pulls = np.concatenate(((wins - area[..., None]) / m, (losses - area[..., None]) / n), -1)
    spread, fourth = (pulls**2).sum(-1), (pulls**4).sum(-1)
    inside = (area > 0) & (area < 1) & (fourth > 1e-60)
    rests_on = np.divide(spread**2, fourth, out=np.zeros_like(spread), where=inside)
    ratio = np.divide(spread, hanley_mcneil_variance(area, m, n), out=np.ones_like(spread), where=inside)
    trust = rests_on / (rests_on + _DOUBT)
    scaled = trust * ratio + (1 - trust) * np.maximum(ratio, 1.0)
    reach = student_quantile((1 + level) / 2, max(m + n - 2, 1)) ** 2 * scaled
    return _lower_area(area, m, n, reach), 1 - _lower_area(1 - area, m, n, reach)


def best_threshold(
    labels: Sequence[bool],
    scores: Sequence[float],
    *,
    by: Literal["youden", "agreement"] = "youden",
    level: float = 0.95,
    bounds: tuple[float, float] | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """The score from which on to pass a unit, so that labels and verdicts agree best.

    Best is the largest sensitivity + specificity (`youden`) or the largest share that agrees; of several thresholds
    that are as good the middle one, half-way between two scores. To pass all or none may be as good as any: then it is
    one of the `bounds` of the scale, or without them the least or greatest score.

    The interval is by quantiles over bootstrap resamples of two thirds of each class, from the least to the greatest of
    what is as good in each: a maximum settles slowly, and resamples of full size would vary too little. With fewer
    than 5 labels of a class it is all of the scale. Raises NotEstimableError where one class has no label.

    >>> best_threshold([True, True, False, False], [0.9, 0.6, 0.4, 0.1]).value
    0.5
    """
    require_level(level)
    high, low = _split(labels, scores)
    values = np.unique(np.concatenate((high, low)))
    ends = bounds or (float(values[0]), float(values[-1]))
    cuts = np.concatenate(([ends[0]], (values[:-1] + values[1:]) / 2, [ends[1]]))
    passing, failing = (np.bincount(np.searchsorted(values, x), minlength=len(values)) for x in (high, low))
    best = np.flatnonzero(_best(passing, failing, by))
    value = float(cuts[best[(len(best) - 1) // 2]])
    if min(len(high), len(low)) < _FEW:
        least, greatest = np.array([ends[0]]), np.array([ends[1]])
    else:
        least, greatest = _resampled(cuts, passing, failing, by, np.random.default_rng(seed), resamples)
    lower, upper = np.quantile(least, (1 - level) / 2), np.quantile(greatest, (1 + level) / 2)
    interval = Interval(min(float(lower), value), max(float(upper), value), level)
    return Estimate(value, len(high) + len(low), interval, f"bootstrap, by {by}")


def _resampled(
    cuts: Numbers, passing: Any, failing: Any, by: str, rng: np.random.Generator, resamples: int
) -> tuple[Numbers, Numbers]:
    """The least and the greatest of the best cuts of each resample."""
    least, greatest = [], []
    step = max(1, _MAX_CELLS // len(cuts))
    for done in range(0, resamples, step):
        size = min(step, resamples - done)
        some, others = (rng.multinomial(-(-2 * x.sum() // 3), x / x.sum(), size) for x in (passing, failing))
        good = _best(some, others, by)
        least.append(cuts[good.argmax(-1)])
        greatest.append(cuts[len(cuts) - 1 - good[:, ::-1].argmax(-1)])
    return np.concatenate(least), np.concatenate(greatest)


def _split(labels: Sequence[bool], scores: Sequence[float]) -> tuple[Numbers, Numbers]:
    passing = np.asarray(labels, bool)
    x = np.asarray(scores, float)
    if passing.shape != x.shape:
        raise ValueError(f"{len(passing)} labels beside {len(x)} scores")
    if passing.all() or not passing.any():
        raise NotEstimableError(f"no label says {'fail' if len(passing) and passing.all() else 'pass'}")
    return x[passing], x[~passing]


def hanley_mcneil_variance(area: Any, m: int, n: int) -> Any:
    """The variance of an area over `m` passes and `n` fails, with both sizes at their mean as Newcombe has it.

    >>> round(hanley_mcneil_variance(0.8931, 51, 58) ** 0.5, 3)  # near Hanley and McNeil's own 0.032
    0.032
    """
    size = (m + n) / 2 - 1
    shape = 1 + size * (1 - area) / (2 - area) + size * area / (1 + area)
    return area * (1 - area) * shape / (m * n)


def _placements(of: Numbers, among: Numbers) -> Numbers:
    """For each of the scores the share of the others that it exceeds, ties counting half."""
    ranked = np.sort(among)
    exceeded: Numbers = (np.searchsorted(ranked, of, "left") + np.searchsorted(ranked, of, "right")) / (2 * len(among))
    return exceeded


def _lower_area(area: Any, m: int, n: int, reach: Any) -> Any:
    """The least area that this one's squared distance from is within `reach` times its variance."""
    low, high = np.zeros_like(area), np.array(area, float)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        outside = (area - middle) ** 2 > reach * hanley_mcneil_variance(middle, m, n)
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low


def _best(passing: Any, failing: Any, by: str) -> Any:
    """Where to cut best, by how many passes and fails have each value; below the first value first, above all last."""
    passed = np.cumsum(passing[..., ::-1], -1)[..., ::-1].astype(float)
    refused = np.cumsum(failing, -1).astype(float)
    none = np.zeros((*passed.shape[:-1], 1))
    passed, refused = np.concatenate((passed, none), -1), np.concatenate((none, refused), -1)
    if by == "youden":
        passed, refused = passed / passing.sum(-1, keepdims=True), refused / failing.sum(-1, keepdims=True)
    worth = passed + refused
    return worth >= worth.max(-1, keepdims=True) - 1e-12
