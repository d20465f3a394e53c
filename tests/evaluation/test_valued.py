"""Whatever a metric gives as a value, only a finite number on its scale becomes a score."""

import math
from fractions import Fraction

import numpy as np
import pytest

from spanscore.evaluation.outcomes import valued
from spanscore.model.score import Failure, Score, Skip

UNIT = (0.0, 1.0)


@pytest.mark.parametrize(
    "value", [True, False, "0.8", None, math.nan, math.inf, -math.inf, 1.01, -0.2, [0.5], 1j]
)
def test_what_is_no_number_on_the_scale_is_a_failure(value):
    outcome = valued(Score(value, "fine"), "mine", UNIT)

    assert isinstance(outcome, Failure)
    assert repr(value) in outcome.message


@pytest.mark.parametrize("value", [0, 1, 0.25, np.float32(0.5), np.float64(1), Fraction(1, 2)])
def test_a_number_on_the_scale_is_a_float(value):
    outcome = valued(Score(value, "fine"), "mine", UNIT)

    assert (type(outcome.value), outcome.value) == (float, value)


@pytest.mark.parametrize(("value", "end"), [(1 + 1e-12, 1.0), (-1e-12, 0.0)])
def test_what_rounding_puts_beyond_an_end_is_that_end(value, end):
    assert valued(Score(value, "fine"), "mine", UNIT).value == end


def test_the_scale_is_the_metrics_own():
    assert valued(Score(4, "fine"), "rubric.x", (0.0, 5.0)).value == 4.0


def test_what_is_no_score_stays():
    assert valued(Skip("nothing"), "mine", UNIT) == Skip("nothing")
