"""What simulations of ranked scores share."""

import numpy as np
import pytest
from scipy.stats import rankdata


@pytest.fixture
def placements():
    """The share of the lower scores below each higher one, and of the higher above each lower; ties
    count half.
    """

    def of(high, low):
        m, n = high.shape[1], low.shape[1]
        ranks = rankdata(np.concatenate((high, low), 1), axis=1)
        wins = (ranks[:, :m] - rankdata(high, axis=1)) / n
        return wins, 1 - (ranks[:, m:] - rankdata(low, axis=1)) / m

    return of
