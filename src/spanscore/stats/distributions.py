"""The beta, normal and Student distributions."""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Any

from spanscore.lazy_imports import np

_NORMAL = NormalDist()
_PRECISION = 1e-14
_NEAR = 1e-8  # a step of Newton's that is so small has the square of it left as its error
_MAX_TERMS = 5_000
_MAX_STEPS = 200
_FEW = 8
_FAR = 1e10
_MAX_LOGIT = 700.0  # beyond it a float is 0 or 1


@cache
def _elementwise(function: Callable[[float], float]) -> Any:
    """The function of numbers as one of arrays."""
    return np.frompyfunc(function, 1, 1)


def normal_cdf(x: Any) -> Any:
    """The share of the standard normal distribution below `x`.

    >>> round(float(normal_cdf(1.96)), 4)
    0.975
    """
    return 0.5 * np.asarray(_elementwise(math.erfc)(-np.asarray(x, float) / math.sqrt(2)), float)


@lru_cache(maxsize=64)
def normal_quantile(share: float) -> float:
    """Where the standard normal distribution has `share` below.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return _NORMAL.inv_cdf(share)


def log_beta(a: Any, b: Any) -> Any:
    """The logarithm of Euler's beta function."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        log_gamma = _elementwise(math.lgamma)
        return np.asarray(log_gamma(a) + log_gamma(b) - log_gamma(np.add(a, b)), float)
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(x: Any, a: Any, b: Any) -> Any:
    """The share of Beta(a, b) below `x`: the regularised incomplete beta function.

    By the continued fraction DLMF 8.17.22, on the side of the mean where it converges fast.

    >>> round(float(beta_cdf(0.5, 2, 3)), 4)
    0.6875
    """
    with np.errstate(divide="ignore"):
        logit = np.log(x) - np.log1p(-np.asarray(x, float))
    return _cdf_of_logit(
        np.clip(logit, -_MAX_LOGIT, _MAX_LOGIT), np.asarray(a, float), np.asarray(b, float)
    )


def beta_quantile(share: Any, a: Any, b: Any) -> Any:
    """Where Beta(a, b) has `share` below, for shares between 0 and 1.

    Newton's method on the logit of the answer, which is nearly normal, kept within a bracket that
    each step narrows.

    >>> round(float(beta_quantile(0.975, 11, 1)), 4)
    0.9977
    """
    away = np.asarray(_elementwise(normal_quantile)(share), float)
    share, away, a, b = np.broadcast_arrays(*(np.asarray(x, float) for x in (share, away, a, b)))
    low, high = np.full(share.shape, -_MAX_LOGIT), np.full(share.shape, _MAX_LOGIT)
    logit = (
        np.log(a) - np.log(b) + np.where(np.minimum(a, b) > 1, away * np.sqrt(1 / a + 1 / b), 0.0)
    )
    scale = log_beta(np.array(a), np.array(b))
    for _ in range(_MAX_STEPS):
        above = _cdf_of_logit(logit, a, b) - share
        low, high = np.where(above < 0, logit, low), np.where(above < 0, high, logit)
        log_density = -a * np.logaddexp(0, -logit) - b * np.logaddexp(0, logit) - scale
        with np.errstate(over="ignore", invalid="ignore"):
            newton = logit - above * np.exp(-log_density)
        near = np.abs(newton - logit) <= _NEAR * np.maximum(1, np.abs(logit))
        logit = np.where(near | (newton > low) & (newton < high), newton, 0.5 * (low + high))
        if np.all(near | (high - low <= _PRECISION * np.maximum(1, np.abs(logit)))):
            break
    return 1 / (1 + np.exp(-logit))


def gamma_quantile(share: Any, shape: Any) -> Any:
    """Where the gamma distribution of this shape and of scale 1 has `share` below, for shares
    between 0 and 1.

    It is the limit of a beta distribution whose other parameter grows; four digits of it are right.

    >>> round(float(gamma_quantile(0.975, 1)), 3)
    3.689
    """
    return beta_quantile(share, shape, _FAR) * _FAR


def student_quantile(share: float, degrees: Any) -> Any:
    """Where Student's t with `degrees` of freedom has `share` below, for a share above one half.

    >>> round(float(student_quantile(0.975, 4)), 3)
    2.776
    """
    degrees = np.asarray(degrees, float)
    x = beta_quantile(2 * (1 - share), degrees / 2, 0.5)
    return np.sqrt(degrees * (1 - x) / x)


def _cdf_of_logit(logit: Any, a: Any, b: Any) -> Any:
    x, rest = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))
    above = x > (a + 1) / (a + b + 2)
    near, far = np.where(above, b, a), np.where(above, a, b)
    tail = np.where(above, rest, x)
    log_front = -near * np.logaddexp(0, np.where(above, logit, -logit)) - far * np.logaddexp(
        0, np.where(above, -logit, logit)
    )
    share = (
        np.exp(log_front - log_beta(np.array(near), np.array(far)))
        / near
        * _continued_fraction(tail, near, far)
    )
    return np.where(above, 1 - share, share)


def _continued_fraction(x: Any, a: Any, b: Any) -> Any:
    """The one of the incomplete beta function; of few numbers each by itself, which Python does
    sooner than numpy.
    """
    x, a, b = np.broadcast_arrays(x, a, b)
    if x.size > _FEW:
        return _lentz(x, a, b)
    numbers = zip(x.ravel().tolist(), a.ravel().tolist(), b.ravel().tolist(), strict=True)
    return np.reshape([_lentz(*each) for each in numbers], x.shape)


def _lentz(x: Any, a: Any, b: Any) -> Any:
    """By Lentz's method; below the mean no denominator comes near 0."""
    c, d = 1.0, 1.0 / (1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _MAX_TERMS):
        step = 1.0
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1 + term * d)
            c = 1 + term / c
            step = step * c * d
        total = total * step
        if m % 4 == 0 and np.all(np.abs(step - 1) < _PRECISION):
            break
    return total
