"""Agreement of two raters, in verdicts and scores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from spanscore.lazy_imports import NDArray, np
from spanscore.stats.differences import exact_limits
from spanscore.stats.distributions import student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.limits import Numbers
from spanscore.stats.means import design_effect, mean, rate

_HALF = 0.5
"""Added to each cell of a table before its variance is taken, as Jeffreys' prior does: no cell is
surely empty.
"""


_NO_PAIRS = "there are no pairs of verdicts"
_ONE_CLASS = "all verdicts are of one class, so that chance alone would agree on all"


@dataclass(frozen=True, slots=True)
class Confusion:
    """A judge's verdicts beside the truth, counted: the second word is the judge's, the first
    whether it is right.

    The counts of weighted verdicts are effective ones and need not be whole.
    """

    true_pass: float
    false_fail: float
    false_pass: float
    true_fail: float

    @property
    def n(self) -> float:
        """How many verdicts there are."""
        return self.true_pass + self.false_fail + self.false_pass + self.true_fail

    def agreement(self, level: float = 0.95) -> Estimate:
        """The share of verdicts that are right. Raises NotEstimableError where there are none."""
        return _share(
            self.true_pass + self.true_fail, self.n, "there is nothing to take a rate of", level
        )

    def kappa(self, level: float = 0.95) -> Estimate:
        """Cohen's kappa, as the function of this name has it."""
        return _estimated(self.cells(), level)

    def sensitivity(self, level: float = 0.95, effect: float = 1.0) -> Estimate:
        """Of what truly passes, the share that the judge passes; `effect` is the design effect of
        clusters on it.

        Raises NotEstimableError where nothing does.
        """
        return _share(
            self.true_pass, self.true_pass + self.false_fail, "no label says pass", level, effect
        )

    def specificity(self, level: float = 0.95, effect: float = 1.0) -> Estimate:
        """Of what truly fails, the share that the judge fails; `effect` as that on `sensitivity`.

        Raises NotEstimableError where nothing does.
        """
        return _share(
            self.true_fail, self.true_fail + self.false_pass, "no label says fail", level, effect
        )

    def precision(self, level: float = 0.95) -> Estimate:
        """Of what the judge passes, the share that truly does.

        Raises NotEstimableError where it passes nothing.
        """
        return _share(
            self.true_pass, self.true_pass + self.false_pass, "the judge passed nothing", level
        )

    def cells(self) -> NDArray[np.float64]:
        """As a table whose rows are the truth, of the classes that occur."""
        if not self.n:
            raise NotEstimableError(_NO_PAIRS)
        cells = np.array(
            [[self.true_pass, self.false_fail], [self.false_pass, self.true_fail]], float
        )
        if cells[0, 0] == self.n or cells[1, 1] == self.n:
            raise NotEstimableError(_ONE_CLASS)
        return cells


def confusion(truth: Sequence[bool], judged: Sequence[bool]) -> Confusion:
    """Count verdicts beside the truth.

    >>> table = confusion([True, True, False, False], [True, False, False, True])
    >>> table.true_pass, table.false_fail, table.false_pass, table.true_fail
    (1, 1, 1, 1)
    """
    _require_pairs(truth, judged)
    t, j = np.asarray(truth, bool), np.asarray(judged, bool)
    return Confusion(
        int((t & j).sum()), int((t & ~j).sum()), int((~t & j).sum()), int((~t & ~j).sum())
    )


def agreement(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    *,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """The share of units that both call the same; `clusters` and errors as `mean` has them.

    >>> agreement(["pass", "fail", "pass"], ["pass", "fail", "fail"]).n
    3
    """
    _require_pairs(a, b)
    return mean([float(x == y) for x, y in zip(a, b, strict=True)], level=level, clusters=clusters)


def kappa(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    *,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """Cohen's kappa: the agreement beyond what chance gives, as a share of what there is to gain
    (1960).

    The interval has the variance of Fleiss, Cohen and Everitt (1969), taken and centred with half a
    unit added to each cell, and Student's quantile with one degree of freedom more than there are
    units outside the commonest class: so it covers also where units are few or one class is rare.
    Units with the same one of `clusters` (the traces of a session) are not independent: the table
    is divided by their design effect. Raises NotEstimableError where all is of one class.

    >>> estimate = kappa([1] * 25 + [0] * 25, [1] * 20 + [0] * 20 + [1] * 10)
    >>> round(estimate.value, 2), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.4, 0.13, 0.64)
    """
    _require_pairs(a, b)
    classes = {x: place for place, x in enumerate(dict.fromkeys((*a, *b)))}
    if not classes:
        raise NotEstimableError(_NO_PAIRS)
    if len(classes) == 1:
        raise NotEstimableError(_ONE_CLASS)
    rows, columns = ([classes[x] for x in given] for given in (a, b))
    table = np.zeros((len(classes), len(classes)))
    np.add.at(table, (rows, columns), 1)
    if clusters is None:
        return _estimated(table, level)
    effect = design_effect(kappa_pulls(table)[rows, columns], clusters)
    found = _estimated(table, level, effect)
    return replace(
        found,
        n=len(set(clusters)),
        effective_n=found.n / effect,
        method=f"{found.method}, clustered",
    )


def kappa_standard_error(table: Confusion) -> float:
    """The standard error of kappa by Fleiss, Cohen and Everitt (1969), from the counts as they
    are.
    """
    return float(_deviation(table.cells())[1])


def _estimated(table: NDArray[np.float64], level: float, effect: float = 1.0) -> Estimate:
    require_level(level)
    low, high = kappa_limits(table / effect, level)
    value = float(_kappa(table / table.sum())[0])
    # Centred elsewhere than the value, the interval of a kappa of 1 would end just below it.
    interval = Interval(min(float(low), value), max(float(high), value), level)
    return Estimate(value, int(table.sum()), interval, "Fleiss, Cohen and Everitt")


def kappa_limits(tables: NDArray[np.float64], level: float) -> tuple[Any, Any]:
    """Kappa's limits for tables of counts, of which the last two axes are the classes."""
    counts = tables + _HALF
    value, deviation = _deviation(counts)
    n = counts.sum((-2, -1))
    rarer = n - ((counts.sum(-1) + counts.sum(-2)) / 2).max(-1)
    reach = student_quantile((1 + level) / 2, rarer + 1) * deviation
    return np.maximum(value - reach, -1.0), np.minimum(value + reach, 1.0)


def _deviation(counts: NDArray[np.float64]) -> tuple[Any, Any]:
    """Kappa and its standard error."""
    n = counts.sum((-2, -1))
    cells = counts / n[..., None, None]
    value, chance = _kappa(cells)
    by_a, by_b = cells.sum(-1), cells.sum(-2)
    left = (1 - value)[..., None]
    on_diagonal = np.diagonal(cells, axis1=-2, axis2=-1) * (1 - (by_a + by_b) * left) ** 2
    crossed = cells * (by_b[..., :, None] + by_a[..., None, :]) ** 2
    off_diagonal = crossed.sum((-2, -1)) - np.diagonal(crossed, axis1=-2, axis2=-1).sum(-1)
    spread = (
        on_diagonal.sum(-1) + (1 - value) ** 2 * off_diagonal - (value - chance * (1 - value)) ** 2
    )
    return value, np.sqrt(np.maximum(spread, 0) / n) / (1 - chance)


def kappa_pulls(tables: NDArray[np.float64]) -> Any:
    """How far a unit of each cell pulls kappa from what it is; of tables as `kappa_limits` takes
    them.
    """
    cells = tables / tables.sum((-2, -1))[..., None, None]
    value, chance = (x[..., None, None] for x in _kappa(cells))
    by_chance = cells.sum(-2)[..., :, None] + cells.sum(-1)[..., None, :]
    return np.eye(cells.shape[-1]) - value - (1 - value) * (by_chance - chance)


def _kappa(cells: NDArray[np.float64]) -> tuple[Any, Any]:
    """Kappa and the agreement by chance, of shares in cells."""
    agreed = np.diagonal(cells, axis1=-2, axis2=-1).sum(-1)
    chance = (cells.sum(-1) * cells.sum(-2)).sum(-1)
    return (agreed - chance) / (1 - chance), chance


def _require_pairs(a: Sequence[Any], b: Sequence[Any]) -> None:
    if len(a) != len(b):
        raise ValueError(f"{len(a)} verdicts beside {len(b)}: pairs need as many of each")


def _share(count: float, of: float, why_none: str, level: float, effect: float = 1.0) -> Estimate:
    if not of:
        raise NotEstimableError(why_none)
    if effect <= 1 and count == int(count) and of == int(of):
        return rate(int(count), int(of), level=level)
    low, high = (float(x) for x in exact_limits(count / effect, of / effect, level))
    return Estimate(
        count / of, round(of), Interval(low, high, level), "Clopper and Pearson", of / effect
    )


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


Truths: TypeAlias = "NDArray[np.bool_]"

_MAX_FOLDS = 10


@dataclass(frozen=True, slots=True)
class Unsure:
    """Scores within the `limits`, both included, are unsure; where none that was seen is, both are
    one value between.

    `share` is how many of the scores are unsure, `wrong` how many verdicts on the others people
    contradict; both are of units that the limits were not chosen by. `wrong` is None where no score
    is sure.
    """

    limits: tuple[float, float]
    share: Estimate
    wrong: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """As `--json` has it."""
        return {
            "limits": list(self.limits),
            "share": self.share.to_json(),
            "wrong": None if self.wrong is None else self.wrong.to_json(),
        }


def unsure_scores(
    labels: Sequence[bool],
    scores: Sequence[float],
    *,
    threshold: float,
    bounds: tuple[float, float] = (0, 1),
    most_wrong: float = 0.05,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Unsure:
    """The scores around `threshold` at which more than `most_wrong` of the verdicts are
    contradicted.

    `labels` are what people say of the units that have these `scores`; a judge passes from
    `threshold` on. The chance that people pass a unit is taken to rise with its score, and
    estimated by isotonic regression (Ayer and others 1955, "An empirical distribution function for
    sampling with incomplete information"), each block of it with half a unit more in either class,
    so that few labels make nothing sure. A limit lies in the middle between scores that were seen;
    where none is sure on one side of the threshold, it is the end of the scale.

    The two shares are cross-validated: each tenth of the clusters is judged by the limits that the
    others give. Raises NotEstimableError with fewer than two clusters.

    >>> labels = [False] * 20 + [True, False] * 5 + [True] * 20
    >>> scores = [0.1] * 20 + [0.6] * 10 + [0.9] * 20
    >>> unsure_scores(labels, scores, threshold=0.5).limits
    (0.35, 0.75)
    """
    require_level(level)
    passes, x = np.asarray(labels, bool), np.asarray(scores, float)
    if passes.shape != x.shape:
        raise ValueError(f"{len(passes)} labels beside {len(x)} scores")
    of_units = list(range(len(x)) if clusters is None else clusters)
    folds = _folds(of_units)
    if folds.max(initial=0) < 1:
        raise NotEstimableError("it takes labels of two sessions or traces at least")
    limits = unsure_limits(passes, x, threshold, bounds, most_wrong)
    is_unsure = np.zeros(len(x), bool)
    for fold in range(folds.max() + 1):
        own = folds == fold
        is_unsure[own] = _within(
            x[own], unsure_limits(passes[~own], x[~own], threshold, bounds, most_wrong)
        )
    share = mean(list(is_unsure.astype(float)), level=level, clusters=clusters)
    sure = np.flatnonzero(~is_unsure)
    if not len(sure):
        return Unsure(limits, share, None)
    wrong = (passes != (x >= threshold))[sure].astype(float)
    of_sure = None if clusters is None else [of_units[place] for place in sure]
    return Unsure(limits, share, mean(list(wrong), level=level, clusters=of_sure))


def unsure_limits(
    passes: Truths,
    scores: Numbers,
    threshold: float,
    bounds: tuple[float, float],
    most_wrong: float,
) -> tuple[float, float]:
    """From where to where scores are unsure."""
    values, places = np.unique(scores, return_inverse=True)
    counts = np.bincount(places, minlength=len(values))
    chances = _rising(np.bincount(places, passes, len(values)).astype(float), counts)
    passing = values >= threshold
    sure_pass = values[passing & (1 - chances <= most_wrong)]
    sure_fail = values[~passing & (chances <= most_wrong)]
    to_value, from_value = sure_fail.max(initial=-np.inf), sure_pass.min(initial=np.inf)
    unsure = values[(values > to_value) & (values < from_value)]
    if not len(unsure):
        if len(sure_fail) and len(sure_pass):
            return float(to_value + from_value) / 2, float(to_value + from_value) / 2
        unsure = np.array([threshold])
    low = (to_value + unsure.min()) / 2 if len(sure_fail) else bounds[0]
    high = (from_value + unsure.max()) / 2 if len(sure_pass) else bounds[1]
    return float(low), float(high)


def _within(scores: Numbers, limits: tuple[float, float]) -> Truths:
    return (scores >= limits[0]) & (scores <= limits[1])


def _rising(passed: Numbers, counts: NDArray[np.int64]) -> Numbers:
    """The chance to pass at each value, rising: neighbours that contradict that are pooled in one
    block.

    A block counts with half a pass and half a fail more than it has.
    """
    blocks: list[tuple[float, float, int]] = []
    for yes, n in zip(passed, counts, strict=True):
        block = (float(yes), float(n), 1)
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    return np.concatenate(
        [np.full(width, (yes + 0.5) / (n + 1)) for yes, n, width in blocks] or [np.empty(0)]
    )


def _folds(clusters: Sequence[Hashable]) -> NDArray[np.int64]:
    """The fold of each unit, all of a cluster in the same."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(x, len(numbers)) % _MAX_FOLDS for x in clusters], int)
