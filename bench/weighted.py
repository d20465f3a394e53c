"""How often the intervals of `spanscore.stats.weighted` hold the truth, for rare strata that are
drawn seldom.

Prints, for each design, the coverage at 95 % and the mean width, and exits 1 where a coverage is
below .88. It takes some minutes.
"""

import itertools
import sys

import numpy as np

from spanscore.stats import moments, weighted_mean, weighted_total

REPEATS = 1000
DESIGNS = ((0.1, 0.1), (0.02, 0.02), (0.3, 0.1), (0.97, 0.05), (0.5, 0.5))
RATES = ((0.6, 0.6), (0.3, 0.7), (0.0, 1.0), (0.05, 0.05), (0.02, 0.02), (0.99, 0.99), (1.0, 1.0))
SIZES = (20, 200, 1000, 3000)


def main() -> None:
    """Print a line for each number of units, share of the stratum and chance to draw it, and pass
    rates.
    """
    worst = 1.0
    print("units  stratum  chance  rates        mean: held  width    total: held")
    for n, (share, chance), rates in itertools.product(SIZES, DESIGNS, RATES):
        held, width, of_total = _simulated(n, share, chance, rates)
        worst = min(worst, held, of_total)
        design = f"{n:5}  {share:7}  {chance:6}  {rates[0]:.2f} / {rates[1]:.2f}"
        print(f"{design}  {held:10.3f}  {width:5.2f}  {of_total:13.3f}")
    print(f"the least coverage is {worst:.3f}")
    sys.exit(worst < 0.88)


def _simulated(
    n: int, share: float, chance: float, rates: tuple[float, float]
) -> tuple[float, float, float]:
    rng = np.random.default_rng(n)
    truth = share * rates[0] + (1 - share) * rates[1]
    held = of_total = 0
    widths = []
    for _ in range(REPEATS):
        rare = rng.random(n) < share
        y = (rng.random(n) < np.where(rare, *rates)).astype(float)
        chances = np.where(rare, chance, 1.0)
        kept = rng.random(n) < chances
        if not kept.any():
            held, of_total = held + 1, of_total + 1
            continue
        mean = weighted_mean(moments(y[kept], chances[kept]), least_chance=chance).interval
        total = weighted_total(y[kept], chances[kept], least_chance=chance).interval
        held += mean is not None and mean.low - 1e-9 <= truth <= mean.high + 1e-9
        of_total += total is not None and total.low - 1e-9 <= y.sum() <= total.high + 1e-9
        widths.append(mean.high - mean.low if mean else 0.0)
    return held / REPEATS, float(np.mean(widths)), of_total / REPEATS


if __name__ == "__main__":
    main()
