"""pass@k and pass^k."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from numbers import Integral
from typing import Literal

from spanscore.lazy_imports import np
from spanscore.stats.distributions import beta_quantile, log_beta, normal_cdf, normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.limits import Numbers
from spanscore.stats.means import mean


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of `k` attempts passes, 1 - (1 - p)^k with p = c/n.

    `n` trials, `c` of them passed. Raises ValueError where these are no counts. It takes p as
    known: with n near k use `unbiased_pass_at_k`, or `posterior_pass_at_k` for an interval.

    >>> round(pass_at_k(10, 3, 2), 4)
    0.51
    """
    require_counts(n, c, k)
    return 1 - (1 - c / n) ** k


def pass_pow_k(n: int, c: int, k: int) -> float:
    """The chance that all of `k` attempts pass, p^k with p = c/n; arguments and errors as
    `pass_at_k`.

    >>> round(pass_pow_k(10, 3, 2), 4)
    0.09
    """
    require_counts(n, c, k)
    return float((c / n) ** k)


def unbiased_pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the chance that k of these n trials, drawn without replacement, hold
    a passed one.

    Its mean over repeated experiments is 1 - (1 - p)^k exactly (Chen et al. 2021, "Evaluating Large
    Language Models Trained on Code", equation 1). Raises ValueError where k > n: no unbiased
    estimator exists then.

    >>> unbiased_pass_at_k(4, 1, 2)
    0.5
    """
    require_counts(n, c, k)
    _require_enough(n, k)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def unbiased_pass_pow_k(n: int, c: int, k: int) -> float:
    """C(c, k) / C(n, k): the chance that k of these n trials, drawn without replacement, all
    passed.

    Its mean over repeated experiments is p^k exactly (Yao et al. 2024, "tau-bench", section 4).
    Raises ValueError where k > n.

    >>> unbiased_pass_pow_k(4, 3, 2)
    0.5
    """
    require_counts(n, c, k)
    _require_enough(n, k)
    return math.comb(c, k) / math.comb(n, k)


def posterior_pass_at_k(
    n: int, c: int, k: int, *, prior: tuple[float, float] = (1, 1), level: float = 0.95
) -> Estimate:
    """The posterior mean of 1 - (1 - p)^k and its equal-tailed credible interval.

    p has the prior Beta(a, b), so after the trials Beta(a + c, b + n - c). The mean is 1 -
    E[(1-p)^k], and the k-th moment of a beta variable is a ratio of beta functions; 1 - (1-p)^k
    rises with p, so its quantiles are those of p, transformed. n = 0 gives what the prior says.

    >>> estimate = posterior_pass_at_k(10, 3, 2)
    >>> round(estimate.value, 4), round(estimate.interval.low, 4), round(estimate.interval.high, 4)
    (0.5385, 0.2066, 0.8477)
    """
    a, b = _posterior(n, c, k, prior, level)
    return _credible(1 - _moment(b, a, k), lambda p: 1 - (1 - p) ** k, (a, b), n, level)


def posterior_pass_pow_k(
    n: int, c: int, k: int, *, prior: tuple[float, float] = (1, 1), level: float = 0.95
) -> Estimate:
    """The posterior mean of p^k and its equal-tailed credible interval; see `posterior_pass_at_k`.

    >>> estimate = posterior_pass_pow_k(10, 3, 2)
    >>> round(estimate.value, 4), round(estimate.interval.low, 4), round(estimate.interval.high, 4)
    (0.1282, 0.0119, 0.3718)
    """
    a, b = _posterior(n, c, k, prior, level)
    return _credible(_moment(a, b, k), lambda p: p**k, (a, b), n, level)


def require_counts(n: int, c: int, k: int = 1) -> None:
    """Refuse what cannot be `c` of `n` trials and `k` attempts. Raises ValueError."""
    for name, count in (("n", n), ("c", c), ("k", k)):
        if isinstance(count, bool) or not isinstance(count, Integral):
            raise ValueError(f"{name} {count!r}: give a whole number")  # noqa: TRY004 - one error for all that is no count
    if n < 1:
        raise ValueError(f"n {n}: there must be at least one trial")
    if not 0 <= c <= n:
        raise ValueError(f"c {c}: the passed trials are from 0 to n, which is {n}")
    if k < 1:
        raise ValueError(f"k {k}: there must be at least one attempt")


def _require_enough(n: int, k: int) -> None:
    if k > n:
        raise ValueError(
            f"k {k}: the unbiased form needs at least k trials of each task, and there are {n}"
        )


def _posterior(
    n: int, c: int, k: int, prior: tuple[float, float], level: float
) -> tuple[float, float]:
    require_counts(max(n, 1), c, k)
    require_level(level)
    a, b = prior
    if not (a > 0 and b > 0 and n >= c):
        raise ValueError(f"prior {prior}: both numbers of a beta distribution are above 0")
    return a + c, b + n - c


def _moment(a: float, b: float, k: int) -> float:
    """E[p^k] of Beta(a, b)."""
    return math.exp(log_beta(a + k, b) - log_beta(a, b))


def _credible(
    value: float,
    of_p: Callable[[float], float],
    posterior: tuple[float, float],
    n: int,
    level: float,
) -> Estimate:
    tail = (1 - level) / 2
    low, high = (of_p(float(beta_quantile(share, *posterior))) for share in (tail, 1 - tail))
    return Estimate(value, n, Interval(low, high, level), "beta posterior")


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
