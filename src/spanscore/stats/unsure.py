"""Between which scores a judge is unsure: where people contradict its verdict more often than may
be.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.arrays import NDArray, np
from spanscore.stats.estimate import Estimate, NotEstimableError, require_level
from spanscore.stats.means import Numbers, mean

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
