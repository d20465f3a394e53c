"""How well graded scores tell passes from fails: the area under the ROC curve, and the threshold
that does it best.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Literal, TypeAlias

from spanscore.arrays import NDArray, np
from spanscore.stats.clusters import design_effect
from spanscore.stats.distributions import student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level

Numbers: TypeAlias = "NDArray[np.float64]"

_HALVINGS = 60
_DOUBT = 8.0
"""On how many units a variance must rest before half of what it says below Hanley and McNeil's is
believed.
"""
_FEW, _MANY = 5, 20
"""Labels of a class with which a threshold can be told at all, and with which ties of resamples
need no room.
"""
_SHARE, _SHARE_OF_FEW = 0.85, 0.75
"""Of a class in each resample; found by simulation: less covers a flat best too often, more a sharp
one too seldom.
"""
_MAX_CELLS = 2_000_000
"""Of resamples that are held at once: 16 MiB."""


def auc(
    labels: Sequence[bool],
    scores: Sequence[float],
    *,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """The chance that a unit that passes has a higher score than one that fails, ties counting
    half.

    The interval is Newcombe's (2006, "Confidence intervals for an effect size measure based on the
    Mann-Whitney statistic", method 5): the areas that the variance of Hanley and McNeil (1982),
    taken at each of them, does not refuse; of use at an area of 1 too. That variance supposes
    scores of one shape, so it is scaled by how DeLong's (1988), which supposes nothing, compares
    with it. Units with the same one of `clusters` (the traces of a session) are not independent;
    the variance is multiplied by their design effect (as Obuchowski 1997, "Nonparametric analysis
    of clustered ROC curve data"). Raises NotEstimableError where one class has no label.

    >>> estimate = auc([True, True, True, False, False], [0.9, 0.8, 0.4, 0.5, 0.1])
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.833, 0.18, 0.99)
    """
    require_level(level)
    high, low = _split(labels, scores)
    wins, losses = _placements(high, low), 1 - _placements(low, high)
    area, effect, n, effective = float(wins.mean()), 1.0, len(labels), None
    if clusters is not None:
        passing = np.asarray(labels, bool)
        order = [*np.flatnonzero(passing), *np.flatnonzero(~passing)]
        effect = design_effect(area_pulls(wins, losses), [clusters[x] for x in order])
        n, effective = len(set(clusters)), n / effect
    limits = area_limits(wins, losses, level, effect)
    interval = Interval(float(limits[0]), float(limits[1]), level)
    return Estimate(area, n, interval, "Newcombe, method 5, scaled by DeLong", effective)


def area_pulls(wins: Numbers, losses: Numbers) -> Numbers:
    """How far each unit pulls the area from what it is: the passes first."""
    area = wins.mean(-1, keepdims=True)
    return np.concatenate(((wins - area) / wins.shape[-1], (losses - area) / losses.shape[-1]), -1)


def area_limits(wins: Numbers, losses: Numbers, level: float, effect: Any = 1.0) -> tuple[Any, Any]:
    """Limits from the share of fails below each pass (`wins`) and of passes above each fail
    (`losses`), ties halved.

    The units are on the last axis. Where DeLong's variance is the smaller one it is believed as far
    as it rests on many units, which near an area of 1 are few. `effect` is that of clusters on the
    variance.
    """
    m, n = wins.shape[-1], losses.shape[-1]
    area, pulls = wins.mean(-1), area_pulls(wins, losses)
    spread, fourth = (pulls**2).sum(-1), (pulls**4).sum(-1)
    inside = (area > 0) & (area < 1) & (fourth > 1e-60)
    rests_on = np.divide(spread**2, fourth, out=np.zeros_like(spread), where=inside)
    ratio = np.divide(
        spread, hanley_mcneil_variance(area, m, n), out=np.ones_like(spread), where=inside
    )
    trust = rests_on / (rests_on + _DOUBT * effect)
    scaled = effect * (trust * ratio + (1 - trust) * np.maximum(ratio, 1.0))
    reach = student_quantile((1 + level) / 2, np.maximum((m + n) / effect - 2, 1)) ** 2 * scaled
    return _lower_area(area, m, n, reach), 1 - _lower_area(1 - area, m, n, reach)


def best_threshold(
    labels: Sequence[bool],
    scores: Sequence[float],
    *,
    by: Literal["youden", "agreement"] = "youden",
    level: float = 0.95,
    bounds: tuple[float, float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    resamples: int = 1000,
) -> Estimate:
    """The score from which on to pass a unit, so that labels and verdicts agree best.

    Best is the largest sensitivity + specificity (`youden`) or the largest share that agrees; of
    several thresholds that are as good the middle one, half-way between two scores. To pass all or
    none may be as good as any: then it is one of the `bounds` of the scale, or without them the
    least or greatest score.

    The interval is by quantiles of that middle over bootstrap resamples of 85 % of each class: a
    maximum settles slowly, and resamples of full size vary too little. With fewer than 20 labels of
    a class they are of 75 %, and it is from quantiles of the least to those of the greatest
    threshold that is as good; with fewer than 5 it is all of the scale. Where units share
    `clusters` (the traces of a session) those are counted, and resamples as much smaller as they
    are fewer. Raises NotEstimableError where one class has no label.

    >>> best_threshold([True, True, False, False], [0.9, 0.6, 0.4, 0.1]).value
    0.5
    """
    require_level(level)
    high, low = _split(labels, scores)
    values = np.unique(np.concatenate((high, low)))
    ends = bounds or (float(values[0]), float(values[-1]))
    cuts = np.concatenate(([ends[0]], (values[:-1] + values[1:]) / 2, [ends[1]]))
    passing, failing = (np.searchsorted(values, x) for x in (high, low))
    passes, fails = (np.bincount(x, minlength=len(values)) for x in (passing, failing))
    best = np.flatnonzero(_best(passes, fails, by))
    value = float(cuts[best[(len(best) - 1) // 2]])
    sizes = _independent(labels, clusters)
    lower, upper = ends
    are_many = min(sizes) >= _MANY
    if min(sizes) >= _FEW:
        some, others = (math.ceil((_SHARE if are_many else _SHARE_OF_FEW) * size) for size in sizes)
        least, greatest = _resampled(cuts, (passing, some), (failing, others), by, seed, resamples)
        if are_many:
            least = greatest = (least + greatest) / 2
        lower, upper = (
            float(np.quantile(least, (1 - level) / 2)),
            float(np.quantile(greatest, (1 + level) / 2)),
        )
    interval = Interval(min(lower, value), max(upper, value), level)
    n = len(labels) if clusters is None else len(set(clusters))
    return Estimate(value, n, interval, f"bootstrap, by {by}")


def _independent(labels: Sequence[bool], clusters: Sequence[Hashable] | None) -> list[int]:
    """How many clusters the passes are of, and the fails."""
    of_units = range(len(labels)) if clusters is None else clusters
    return [
        len({x for x, passes in zip(of_units, labels, strict=True) if bool(passes) is of})
        for of in (True, False)
    ]


def _resampled(
    cuts: Numbers,
    passing: tuple[Any, int],
    failing: tuple[Any, int],
    by: str,
    seed: int,
    resamples: int,
) -> tuple[Numbers, Numbers]:
    """The least and the greatest of the best cuts in each resample.

    Of a class it takes the places of its units' values, and how many to draw.
    """
    rng = np.random.default_rng(seed)
    least, greatest = [], []
    kinds = len(cuts) - 1
    step = max(1, _MAX_CELLS // len(cuts))
    for done in range(0, resamples, step):
        at_once = min(step, resamples - done)
        row = kinds * np.arange(at_once)[:, None]
        some, others = (
            np.bincount(
                (row + rng.choice(x, (at_once, size))).ravel(), minlength=at_once * kinds
            ).reshape(-1, kinds)
            for x, size in (passing, failing)
        )
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
        raise NotEstimableError(
            f"no label says {'fail' if len(passing) and passing.all() else 'pass'}"
        )
    return x[passing], x[~passing]


def hanley_mcneil_variance(area: Any, m: int, n: int) -> Any:
    """The variance of an area over `m` passes and `n` fails, with both sizes at their mean as
    Newcombe has it.

    >>> round(hanley_mcneil_variance(0.75, 20, 20) ** 0.5, 6)
    0.077891
    """
    size = (m + n) / 2 - 1
    shape = 1 + size * (1 - area) / (2 - area) + size * area / (1 + area)
    return area * (1 - area) * shape / (m * n)


def _placements(of: Numbers, among: Numbers) -> Numbers:
    """For each of the scores the share of the others that it exceeds, ties counting half."""
    ranked = np.sort(among)
    exceeded: Numbers = (
        np.searchsorted(ranked, of, "left") + np.searchsorted(ranked, of, "right")
    ) / (2 * len(among))
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
    """Where to cut best, by how many passes and fails have each value; below the first value first,
    above all last.

    To raise the cut above a value refuses its passes and fails, which is wrong of the ones and
    right of the others.
    """
    worth_of_pass, worth_of_fail = 1.0, 1.0
    if by == "youden":
        worth_of_pass, worth_of_fail = (1 / x.sum(-1, keepdims=True) for x in (passing, failing))
    worth = np.zeros((*passing.shape[:-1], passing.shape[-1] + 1))
    np.cumsum(failing * worth_of_fail - passing * worth_of_pass, -1, out=worth[..., 1:])
    return worth >= worth.max(-1, keepdims=True) - 1e-9
