"""The distributions against scipy's."""

import numpy as np
import pytest
from scipy import stats

from spanscore.stats.distributions import (
    beta_cdf,
    beta_quantile,
    normal_cdf,
    normal_quantile,
    student_quantile,
)

SHAPES = [(0.1, 0.1), (0.5, 20), (1, 1), (3, 0.7), (11, 1), (40, 60), (900, 100), (20_000, 5_000)]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_the_incomplete_beta_function_is_that_of_scipy(a, b):
    x = np.linspace(0.001, 0.999, 333)
    assert np.allclose(beta_cdf(x, a, b), stats.beta.cdf(x, a, b), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_a_quantile_of_the_beta_distribution_is_that_of_scipy(a, b):
    shares = np.array([0.005, 0.025, 0.5, 0.975, 0.995])
    assert np.allclose(
        beta_quantile(shares, a, b), stats.beta.ppf(shares, a, b), rtol=1e-7, atol=1e-12
    )


def test_the_incomplete_beta_function_is_0_and_1_at_the_ends():
    assert (float(beta_cdf(0.0, 2, 3)), float(beta_cdf(1.0, 2, 3))) == (0.0, 1.0)


@pytest.mark.parametrize("degrees", [1, 2, 7.5, 30, 10_000])
def test_a_quantile_of_students_t_is_that_of_scipy(degrees):
    assert float(student_quantile(0.975, degrees)) == pytest.approx(
        stats.t.ppf(0.975, degrees), rel=1e-8
    )


def test_the_normal_distribution_is_that_of_scipy():
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))
    assert np.allclose(normal_cdf(np.array([-3, 0, 1.5])), stats.norm.cdf([-3, 0, 1.5]))
