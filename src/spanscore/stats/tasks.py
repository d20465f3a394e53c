"""pass@k and pass^k of a whole suite: the mean over its tasks, with an interval over them."""

from collections.abc import Callable, Sequence

from spanscore.stats.estimate import Estimate, NotEstimableError
from spanscore.stats.means import mean
from spanscore.stats.passing import unbiased_pass_pow_k


def over_tasks(
    counts: Sequence[tuple[int, int]],
    k: int,
    *,
    estimator: Callable[[int, int, int], float] = unbiased_pass_pow_k,
    level: float = 0.95,
) -> Estimate:
    """The mean over tasks of `estimator(n, c, k)`; `counts` has (trials, passed ones) of each task.

    The tasks are the units: the interval is that of `mean` over their values, a Bayesian bootstrap over tasks with a
    task added at the bound. With few tasks, or most of them at 0 or 1, it covers where resampled quantiles, plain,
    BCa or studentised, do not. Raises ValueError as `estimator` does, NotEstimableError without tasks.

    >>> round(over_tasks([(4, 0)] * 14 + [(4, 1)] * 12 + [(4, 2)] * 10 + [(4, 3)] * 4 + [(4, 4)] * 10, 2).value, 4)
    0.2733
    """
    if not counts:
        raise NotEstimableError("there are no tasks")
    return mean([estimator(n, c, k) for n, c in counts], level=level)
