"""How far two people, or a judge and a person, give the same verdicts: agreement, Cohen's kappa,
the confusion.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spanscore.arrays import NDArray, np
from spanscore.stats.clusters import design_effect
from spanscore.stats.distributions import student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.means import mean
from spanscore.stats.rates import rate
from spanscore.stats.unpaired import exact_limits

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
