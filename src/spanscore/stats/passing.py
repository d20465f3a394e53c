"""pass@k and pass^k: what one task's trials say of k attempts at it, in the reference, Bayesian and
unbiased forms.
"""

import math
from collections.abc import Callable
from numbers import Integral

from spanscore.stats.distributions import beta_quantile, log_beta
from spanscore.stats.estimate import Estimate, Interval, require_level


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
