"""A pass rate freed of its judge's measured error: Rogan and Gladen's estimate, with all that is
unsure about it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.arrays import np
from spanscore.stats.agreement import Confusion
from spanscore.stats.crossing import crossing
from spanscore.stats.distributions import normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level

_NO_GAIN = 1e-9
_HALVINGS = 40
_WEAK = "the labels leave it open whether the judge is better than chance"
_CUT = "cut to {:g}: the judge's error alone would explain more than was found"
_AT_ODDS = "no rate goes well with both the labels and what was scored; were they drawn alike?"


@dataclass(frozen=True, slots=True)
class Counted:
    """`passed` of `n`, which may be arrays and effective numbers."""

    passed: Any
    n: Any

    @property
    def share(self) -> Any:
        """What passed, of all."""
        return self.passed / self.n

    def divided(self, effect: float) -> "Counted":
        """As many independent units as give the same evidence, by the design effect."""
        return Counted(self.passed / effect, self.n / effect)


Counts = tuple[Counted, Counted, Counted]
"""What the judge passes: of the units in question, of the labelled passes, and of the labelled
fails.
"""


def corrected_rate(
    passed: float,
    n: float,
    judge: Confusion,
    *,
    level: float = 0.95,
    design_effects: tuple[float, float] = (1, 1),
) -> Estimate:
    """The true pass rate behind a judge that passed `passed` of `n`, from its errors on labelled
    units.

    Rogan and Gladen (1978): (rate + specificity - 1) / (sensitivity + specificity - 1). The
    interval holds the rates that a score test does not refuse; see `corrected_distance`. It counts
    the sampling of the labels and of the `n` units, which may be an effective number;
    `design_effects` are those of clusters on sensitivity and specificity. Both are cut to 0..1; the
    note says when the estimate was.

    Raises NotEstimableError where the labels are of one class, or the judge is no better than
    chance on them: then no rate can be told from its verdicts. One that may be no better, by so few
    labels, is noted and not refused: to take only the lucky draws of weak judges would leave
    intervals that hold the rate too seldom.

    >>> estimate = corrected_rate(60, 100, Confusion(45, 5, 10, 40))
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.571, 0.39, 0.75)
    """
    require_level(level)
    if not 0 <= passed <= n or n <= 0:
        raise ValueError(f"{passed:g} of {n:g}: the first is from 0 to the second")
    of_passes = Counted(judge.true_pass, judge.true_pass + judge.false_fail)
    of_fails = Counted(judge.false_pass, judge.false_pass + judge.true_fail)
    _require_gain(of_passes, of_fails)
    counts = (
        Counted(passed, n),
        of_passes.divided(design_effects[0]),
        of_fails.divided(design_effects[1]),
    )
    found = (passed / n - of_fails.share) / (of_passes.share - of_fails.share)
    value = min(1.0, max(0.0, found))
    notes = [_CUT.format(value)] if value != found else []
    limits = corrected_limits(counts, value, level)
    if limits is None:
        notes.append(_AT_ODDS)
        explained = Counted(n * (of_passes if value else of_fails).share, n)
        limits = corrected_limits((explained, *counts[1:]), value, level) or (value, value)
    notes += [_WEAK] if _is_weak(counts, level) else []
    return Estimate(value, int(n), Interval(*limits, level), "score", float(n), "; ".join(notes))


def _require_gain(of_passes: Counted, of_fails: Counted) -> None:
    for counted, name in ((of_passes, "pass"), (of_fails, "fail")):
        if not counted.n:
            raise NotEstimableError(f"no label says {name}")
    if of_passes.share - of_fails.share <= _NO_GAIN:
        raise NotEstimableError(
            f"the judge is no better than chance: it passes {of_passes.share:.0%} of what passes"
            f" and {of_fails.share:.0%} of what fails"
        )


def _is_weak(counts: Counts, level: float) -> bool:
    """Whether the labels leave it open that the judge is no better than chance, with a pass and a
    fail more of each.
    """
    more = [Counted(x.passed + 1, x.n + 2) for x in counts[1:]]
    error = math.sqrt(sum(x.share * (1 - x.share) / x.n for x in more))
    return bool(more[0].share - more[1].share <= normal_quantile((1 + level) / 2) * error)


def corrected_limits(counts: Counts, value: float, level: float) -> tuple[float, float] | None:
    """The least and the greatest rate that the score test does not refuse; None where it refuses
    all of 0..1.

    They lie either side of the estimate `value`: its distance is 0, or it was cut and is taken in.
    """
    reach = normal_quantile((1 + level) / 2)

    def is_accepted(rate: Any) -> Any:
        return abs(corrected_distance(counts, rate)) <= reach

    grid = np.append(np.linspace(0, 1, 129), value)
    accepted = grid[is_accepted(grid)]
    if not accepted.size:
        return None
    least, greatest = float(accepted.min()), float(accepted.max())
    below, above = max(0.0, least - 1 / 128), min(1.0, greatest + 1 / 128)
    low = 0.0 if least == 0 else crossing(is_accepted, below, least)
    high = 1.0 if greatest == 1 else -crossing(lambda x: is_accepted(-x), -above, -greatest)
    return min(low, value), max(high, value)


def corrected_distance(counts: Counts, rate: Any) -> Any:
    """How many standard errors the counts are from a true `rate`; all may be arrays.

    The numerator is what passes of the units - rate * what passes of the passes - (1 - rate) * what
    passes of the fails, whose mean is 0. Its variance is taken at the likeliest three shares under
    which it is 0, and has the factor N / (N - 1) of Miettinen and Nurminen (1985, "Comparative
    analysis of two rates"). It is their score test, which Martin Andres, Alvarez Hernandez and
    Herranz Tejedor (2011, "Inferences about a linear combination of proportions") have for any
    linear combination.
    """
    terms = list(zip((1.0, -rate, rate - 1), counts, strict=True))
    likeliest = _likeliest(terms)
    total = sum(x.n for _, x in terms)
    variance = sum(
        by * by * share * (1 - share) / x.n for (by, x), share in zip(terms, likeliest, strict=True)
    )
    distance = sum(by * x.share for by, x in terms)
    distance = np.where(abs(distance) < 1e-12, 0.0, distance)
    return distance / np.sqrt(np.maximum(variance * total / (total - 1), 1e-24))


def _likeliest(terms: Sequence[tuple[Any, Counted]]) -> list[Any]:
    """Of the shares whose sum, each times its factor, is 0 the likeliest.

    With Lagrange's multiplier each share p solves passed - n p = factor * multiplier * p (1 - p),
    and falls as that product grows. The sum is below 0 where the multiplier is twice the number of
    all units, above 0 at minus that.
    """
    high: Any = 2.0 * sum(x.n for _, x in terms)
    low = -high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        shares = [_pulled(x, by * middle) for by, x in terms]
        is_above = sum(by * share for (by, _), share in zip(terms, shares, strict=True)) > 0
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    return shares


def _pulled(x: Counted, pull: Any) -> Any:
    """The share p with passed - n p = pull * p (1 - p), from the side where the root loses no
    digits.
    """
    is_down = pull >= 0
    size = np.abs(pull)
    count = np.where(is_down, x.passed, x.n - x.passed)
    total = x.n + size
    share = 2 * count / (total + np.sqrt(np.maximum(total * total - 4 * size * count, 0.0)))
    return np.where(is_down, share, 1 - share)
