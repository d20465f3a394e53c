"""pass@k and pass^k of a whole suite: the mean over its tasks, with an interval over them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from spanscore.arrays import np
from spanscore.stats.distributions import normal_cdf, normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError
from spanscore.stats.means import Numbers, mean
from spanscore.stats.passing import unbiased_pass_pow_k

# a limit of 95 % then moves by a hundredth of the width from one seed to the next
_RESAMPLES = 4_000


def over_tasks(
    counts: Sequence[tuple[int, int]],
    k: int,
    *,
    estimator: Callable[[int, int, int], float] = unbiased_pass_pow_k,
    level: float = 0.95,
    method: Literal["bounded", "bootstrap"] = "bounded",
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """The mean over tasks of `estimator(n, c, k)`; `counts` has (trials, passed ones) of each task.

    The tasks are the units; tasks with the same of `clusters` are not independent, and count as
    one. `bounded`: the interval of `mean` over their values. `bootstrap`: BCa quantiles of means of
    resampled tasks (Efron 1987, "Better bootstrap confidence intervals"), as benchmarks report;
    `seed` fixes the resamples. It is narrower, and holds the truth too seldom with few tasks or
    with most of them at 0 or 1: both coverages are in docs/statistics.md. Raises ValueError as
    `estimator` does and for a bootstrap of clusters, NotEstimableError without tasks.

    >>> airline = [(4, 0)] * 14 + [(4, 1)] * 12 + [(4, 2)] * 10 + [(4, 3)] * 4 + [(4, 4)] * 10
    >>> [round(over_tasks(airline, 2, method=x).interval.low, 2) for x in ("bounded", "bootstrap")]
    [0.17, 0.18]
    """
    if not counts:
        raise NotEstimableError("there are no tasks")
    values = [estimator(n, c, k) for n, c in counts]
    found = mean(values, level=level, clusters=clusters)
    if method == "bounded":
        return found
    if clusters is not None:
        raise ValueError("the bootstrap is over tasks, and takes no clusters of them")
    rng = np.random.default_rng(seed)
    x = np.array(values)
    means = np.array([x[rng.integers(len(x), size=len(x))].mean() for _ in range(_RESAMPLES)])
    low, high = bca_limits(x, means, level)
    return Estimate(found.value, found.n, Interval(low, high, level), "BCa bootstrap")


def bca_limits(values: Numbers, means: Numbers, level: float) -> tuple[float, float]:
    """The quantiles of resampled `means` that correct for the bias and the skewness of the mean of
    `values`.
    """
    center = values.mean()
    deviations = values - center
    square = (deviations**2).sum()
    acceleration = (deviations**3).sum() / (6 * square**1.5) if square > 0 else 0.0
    below = ((means < center - 1e-12).mean() + (means <= center + 1e-12).mean()) / 2
    bias = normal_quantile(float(np.clip(below, 1 / len(means), 1 - 1 / len(means))))
    shares = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        shifted = bias + normal_quantile(share)
        shares.append(float(normal_cdf(bias + shifted / (1 - acceleration * shifted))))
    low, high = np.quantile(means, shares)
    return float(low), float(high)
