"""What is reserved counts at once; what was not needed comes back; a new window begins empty."""

import pytest

from spanscore.errors import BudgetExhaustedError
from spanscore.judge.budget import Budget
from spanscore.judge.config import Budget as Limits

HOUR_NS = 3600 * 10**9


def refuses(budget, tokens, usd=0.0, now_ns=0):
    try:
        budget.reserve(tokens, usd, now_ns)
    except BudgetExhaustedError:
        return True
    return False


def test_without_limits_nothing_is_refused():
    assert not refuses(Budget(Limits()), 10**12, 10**6)


def test_calls_under_way_count():
    budget = Budget(Limits(max_tokens=100))
    budget.reserve(60, 0.0, 0)

    assert refuses(budget, 60)


def test_what_a_call_did_not_need_comes_back():
    budget = Budget(Limits(max_tokens=100))
    budget.settle(budget.reserve(60, 0.0, 0), 10, 0.0)

    assert not refuses(budget, 90)


def test_what_a_call_needed_beyond_its_reservation_counts():
    budget = Budget(Limits(max_tokens=100))
    budget.settle(budget.reserve(60, 0.0, 0), 95, 0.0)

    assert refuses(budget, 6)


def test_usd_is_counted_beside_tokens():
    budget = Budget(Limits(max_usd=1.0))
    budget.reserve(1, 0.75, 0)

    assert refuses(budget, 1, 0.5)


def test_a_refusal_books_nothing():
    budget = Budget(Limits(max_tokens=100))
    refuses(budget, 101)

    assert not refuses(budget, 100)


def test_the_next_window_begins_empty():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    budget.reserve(100, 0.0, HOUR_NS - 1)

    assert not refuses(budget, 100, now_ns=HOUR_NS)


def test_a_call_that_ends_in_the_next_window_leaves_that_alone():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    late = budget.reserve(100, 0.0, HOUR_NS - 1)
    budget.reserve(50, 0.0, HOUR_NS)
    budget.settle(late, 0, 0.0)

    assert refuses(budget, 51, now_ns=HOUR_NS)


def test_a_clock_that_is_set_back_opens_no_window_again():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    budget.reserve(100, 0.0, HOUR_NS)

    assert refuses(budget, 1, now_ns=0)


def test_the_error_says_when_the_next_window_begins():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    budget.reserve(100, 0.0, 0)

    with pytest.raises(BudgetExhaustedError, match="the next begins in 30 min"):
        budget.reserve(1, 0.0, HOUR_NS // 2)


def test_a_budget_that_no_call_fits_says_so():
    with pytest.raises(BudgetExhaustedError, match="less than one call"):
        Budget(Limits(max_tokens=100)).reserve(101, 0.0, 0)
