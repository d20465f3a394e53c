"""pass@k and pass^k against enumeration, integration and the numbers that papers print."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

import spanscore
from spanscore.stats import (
    over_tasks,
    pass_at_k,
    pass_pow_k,
    posterior_pass_at_k,
    posterior_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)

DATA = Path(__file__).parent / "data"


def airline():
    with (DATA / "tau_bench_airline.csv").open() as file:
        return [(int(x["trials"]), int(x["passed"])) for x in csv.DictReader(file)]


def test_they_are_public():
    assert (spanscore.pass_at_k, spanscore.pass_pow_k) == (pass_at_k, pass_pow_k)


@pytest.mark.parametrize(("c", "at", "power"), [(0, 0, 0), (10, 1, 1), (5, 0.875, 0.125)])
def test_the_reference_forms(c, at, power):
    assert (pass_at_k(10, c, 3), pass_pow_k(10, c, 3)) == pytest.approx((at, power))


# Yao et al. 2024, "tau-bench", gpt-4o (function calling) on airline: its trajectories give these by
# its formula.
@pytest.mark.parametrize(
    ("k", "power", "at"), [(1, 0.42, 0.42), (2, 0.2733, 0.5667), (3, 0.22, 0.66), (4, 0.2, 0.72)]
)
def test_the_airline_tasks_of_tau_bench(k, power, at):
    assert over_tasks(airline(), k).value == pytest.approx(power, abs=5e-5)
    assert over_tasks(airline(), k, estimator=unbiased_pass_at_k).value == pytest.approx(
        at, abs=5e-5
    )


def test_the_trials_of_tau_bench_are_those_of_its_paper():
    passed = [c for _, c in airline()]
    assert [passed.count(c) for c in range(5)] == [14, 12, 10, 4, 10]


# Chen et al. 2021, figure 3: the product form, 1 - prod(1 - k / i) for i from n - c + 1 to n.
@pytest.mark.parametrize(
    ("n", "c", "k"), [(200, 3, 1), (200, 3, 100), (20, 15, 10), (5, 5, 5), (200, 0, 10)]
)
def test_pass_at_k_is_that_of_the_codex_paper(n, c, k):
    product = 1.0 if n - c < k else 1 - np.prod(1 - k / np.arange(n - c + 1, n + 1))
    assert unbiased_pass_at_k(n, c, k) == pytest.approx(product)


@pytest.mark.parametrize(("n", "c", "k"), [(6, 2, 3), (7, 5, 2), (4, 4, 4), (5, 0, 2)])
def test_the_unbiased_forms_are_shares_of_all_draws_without_replacement(n, c, k):
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert unbiased_pass_at_k(n, c, k) == pytest.approx(sum(any(x) for x in draws) / len(draws))
    assert unbiased_pass_pow_k(n, c, k) == pytest.approx(sum(all(x) for x in draws) / len(draws))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93])
def test_the_unbiased_forms_have_the_right_mean(p):
    chances = stats.binom.pmf(np.arange(9), 8, p)
    assert sum(w * unbiased_pass_pow_k(8, c, 3) for c, w in enumerate(chances)) == pytest.approx(
        p**3
    )
    assert sum(w * unbiased_pass_at_k(8, c, 3) for c, w in enumerate(chances)) == pytest.approx(
        1 - (1 - p) ** 3
    )


@pytest.mark.parametrize(
    ("n", "c", "k", "prior"), [(10, 3, 2, (1, 1)), (5, 5, 8, (0.5, 0.5)), (0, 0, 3, (1, 1))]
)
def test_the_posterior_means_are_integrals_over_the_posterior(n, c, k, prior):
    posterior = stats.beta(prior[0] + c, prior[1] + n - c)
    power, _ = integrate.quad(lambda p: p**k * posterior.pdf(p), 0, 1)
    at, _ = integrate.quad(lambda p: (1 - (1 - p) ** k) * posterior.pdf(p), 0, 1)
    assert posterior_pass_pow_k(n, c, k, prior=prior).value == pytest.approx(power, abs=1e-6)
    assert posterior_pass_at_k(n, c, k, prior=prior).value == pytest.approx(at, abs=1e-6)


def test_the_posterior_limits_are_quantiles_of_the_posterior():
    low, high = stats.beta(4, 8).ppf([0.05, 0.95])
    power, at = posterior_pass_pow_k(10, 3, 2, level=0.9), posterior_pass_at_k(10, 3, 2, level=0.9)
    assert (power.interval.low, power.interval.high) == pytest.approx((low**2, high**2))
    assert (at.interval.low, at.interval.high) == pytest.approx(
        (1 - (1 - low) ** 2, 1 - (1 - high) ** 2)
    )


@pytest.mark.parametrize("estimator", [unbiased_pass_at_k, unbiased_pass_pow_k])
def test_more_attempts_than_trials_have_no_unbiased_form(estimator):
    with pytest.raises(ValueError, match="k 5: the unbiased form needs at least k trials"):
        estimator(4, 2, 5)


@pytest.mark.parametrize(("n", "c", "k"), [(0, 0, 1), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_what_cannot_be_counts_is_refused(n, c, k):
    with pytest.raises(ValueError, match=r"^[nck] -?\d"):
        pass_at_k(n, c, k)


def test_a_bootstrap_over_tasks_is_that_of_scipy():
    counts = airline()
    found = over_tasks(counts, 2, method="bootstrap").interval
    values = [unbiased_pass_pow_k(n, c, 2) for n, c in counts]
    oracle = stats.bootstrap(
        (values,), np.mean, method="BCa", n_resamples=20_000, rng=1
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=0.006)


def test_a_bootstrap_over_tasks_is_the_same_again_with_the_same_seed():
    one, same, other = (
        over_tasks(airline(), 3, method="bootstrap", seed=x).interval for x in (1, 1, 2)
    )
    assert one == same != other


def test_tasks_that_are_all_alike_leave_a_bootstrap_no_doubt_and_the_default_some():
    one, other = (over_tasks([(4, 4)] * 20, 2, method=x).interval for x in ("bootstrap", "bounded"))
    assert (one.low, one.high) == (1.0, 1.0)
    assert other.low < 0.9


@pytest.mark.parametrize("c", [2.5, 2.0, True, "2"])
def test_what_is_no_whole_number_is_refused(c):
    with pytest.raises(ValueError, match=r"^c .*: give a whole number"):
        pass_at_k(4, c, 1)


def test_tasks_of_one_cluster_count_as_one():
    assert over_tasks([(4, 1), (4, 2), (4, 3)], 1, clusters=["a", "a", "b"]).n == 2


def test_a_bootstrap_takes_no_clusters():
    with pytest.raises(ValueError, match="takes no clusters"):
        over_tasks([(4, 1), (4, 2)], 1, method="bootstrap", clusters=["a", "b"])
