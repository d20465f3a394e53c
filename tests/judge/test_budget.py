"""What is reserved counts at once; what was not needed comes back; a small budget is used up to the
last call.
"""

import asyncio

import pytest
from virtual_time import run

from spanscore.errors import BudgetExhaustedError
from spanscore.judge.budget import Budget, Need, Purse, TotalBudget
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


def purse_of(**limits):
    return Purse(Budget(Limits(**limits)), lambda: 0)


async def call(purse, need, tokens):
    """One call that takes a second and so many tokens in the end; its reservation."""
    reserved = await purse.reserve(lambda: need)
    await asyncio.sleep(1)
    purse.settle(reserved, tokens, 0.0)
    return reserved


async def all_at_once(purse, count, need, tokens):
    return await asyncio.gather(
        *(call(purse, need, tokens) for _ in range(count)), return_exceptions=True
    )


NEED = Need(input_tokens=800, least_output=200, most_output=4096)


def test_a_small_budget_is_used_up_to_the_last_call_that_fits():
    outcomes = run(all_at_once(purse_of(max_tokens=20_000), 50, NEED, 1000))

    assert sum(not isinstance(x, BaseException) for x in outcomes) == 20


def test_a_call_that_does_not_fit_yet_waits_for_those_under_way():
    outcomes = run(all_at_once(purse_of(max_tokens=6000), 2, NEED, 1000))

    assert [x.output_tokens for x in outcomes] == [4096, 4096]


def test_the_last_call_is_held_to_the_output_that_is_paid_for():
    outcomes = run(all_at_once(purse_of(max_tokens=5100), 2, NEED, 4000))

    assert [x.output_tokens for x in outcomes] == [4096, 300]


def test_what_calls_were_given_is_never_more_than_the_budget():
    async def greedy(purse):
        reserved = await purse.reserve(lambda: NEED)
        purse.settle(reserved, 800 + reserved.output_tokens, 0.0)
        return 800 + reserved.output_tokens

    async def many(purse):
        return await asyncio.gather(*(greedy(purse) for _ in range(30)), return_exceptions=True)

    spent = [x for x in run(many(purse_of(max_tokens=30_000))) if not isinstance(x, BaseException)]
    assert 30_000 - 1000 < sum(spent) <= 30_000


def test_a_call_too_short_to_be_of_use_is_not_made():
    async def twice(purse):
        await call(purse, NEED, 900)
        return await call(purse, NEED, 900)

    with pytest.raises(BudgetExhaustedError, match="is spent"):
        run(twice(purse_of(max_tokens=1850)))


def test_usd_bound_the_output_as_tokens_do():
    need = Need(1000, 100, 4000, usd_input=0.01, usd_per_output_token=0.00001)

    assert Budget(Limits(max_usd=0.03)).affordable_output(need, 0) == pytest.approx(2000, abs=1)


def test_calls_are_paid_in_the_order_in_which_they_came():
    order = []

    async def numbered(purse, number):
        await call(purse, NEED, 1000)
        order.append(number)

    async def many(purse):
        await asyncio.gather(*(numbered(purse, x) for x in range(10)))

    run(many(purse_of(max_tokens=15_000)))
    assert order == sorted(order)


def test_a_call_that_is_cancelled_lets_the_next_one_decide():
    async def scenario(purse):
        reserved = await purse.reserve(lambda: NEED)
        waiting = asyncio.ensure_future(call(purse, NEED, 1000))
        await asyncio.sleep(0)
        purse.close(reserved)
        return (await waiting).output_tokens

    assert run(scenario(purse_of(max_tokens=6000))) == 304


def test_a_total_budget_does_not_begin_anew():
    budget = TotalBudget(Limits(max_tokens=100, per="hour"))
    budget.reserve(100, 0.0, 0)

    with pytest.raises(
        BudgetExhaustedError, match=r"budget.max_tokens = 100 is spent \(100\); raise it and retry"
    ):
        budget.reserve(1, 0.0, 10**18)


def test_a_total_budget_counts_what_was_spent_before():
    assert TotalBudget(Limits(max_tokens=100, max_usd=2.0), 30, 0.5).left(0) == {
        "tokens": (70, 100),
        "usd": (1.5, 2.0),
    }


def spends(budget, tenant, tokens, now_ns=0):
    """Whether a tenant can spend so many tokens."""
    try:
        budget.settle(budget.reserve(tokens, 0.0, now_ns, tenant), tokens, 0.0)
    except BudgetExhaustedError:
        return False
    return True


def test_a_tenant_that_alone_spends_has_the_whole_budget():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    assert [spends(budget, "a", 50, HOUR_NS * x) for x in (0, 0, 1, 1)] == [True] * 4


def test_a_share_is_kept_for_a_tenant_that_spent_in_the_window_before():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    assert spends(budget, "a", 10)
    assert spends(budget, "b", 10)
    assert [spends(budget, "a", 10, HOUR_NS) for _ in range(6)] == [True] * 5 + [False]
    assert [spends(budget, "b", 10, HOUR_NS) for _ in range(6)] == [True] * 5 + [False]


def test_a_share_is_no_longer_kept_for_a_tenant_that_spent_nothing_in_the_window_before():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    assert spends(budget, "b", 10)
    assert spends(budget, "a", 50, HOUR_NS)
    assert spends(budget, "a", 100, HOUR_NS * 2)


def test_no_share_is_kept_for_a_tenant_whose_spending_is_several_windows_old():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    assert spends(budget, "b", 10)
    assert spends(budget, "a", 100, HOUR_NS * 5)


def shared(spent_before):
    """A budget of 100 tokens an hour in its second hour, with shares for the tenants that spent in
    the first one.
    """
    budget = Budget(Limits(max_tokens=100, per="hour"))
    for tenant, tokens in spent_before.items():
        spends(budget, tenant, tokens)
    return budget


def test_the_error_of_a_spent_share_contains_the_share_and_what_a_call_may_take():
    budget = shared({"a": 10, "b": 10})
    spends(budget, "a", 45, HOUR_NS)

    with pytest.raises(
        BudgetExhaustedError,
        match=(
            r"the tenant's share of judge.budget.max_tokens = 100 for this hour is 50, of which 45"
            r" is spent, "
            r"and one call may take 10; the next begins in 60 min"
        ),
    ):
        budget.reserve(10, 0.0, HOUR_NS, "a")


def test_the_error_of_a_call_that_no_share_covers_asks_for_a_higher_limit():
    with pytest.raises(
        BudgetExhaustedError, match=r"= 100 is 50, less than one call may take \(60\); raise it"
    ):
        shared({"a": 10, "b": 10}).reserve(60, 0.0, HOUR_NS, "a")


def test_the_error_of_a_tenant_that_came_too_late_calls_no_share_of_its_own_spent():
    budget = Budget(Limits(max_tokens=100, per="hour"))
    spends(budget, "b", 80)
    spends(budget, "c", 10)
    with pytest.raises(
        BudgetExhaustedError,
        match=r"what is left of .* is kept for other tenants, and one call may",
    ):
        budget.reserve(8, 0.0, 0, "a")


async def steady(purse, tenant, tokens):
    """Calls of a second each that overlap, so that one is always under way."""

    async def one_after_the_other(delay_s):
        await asyncio.sleep(delay_s)
        while True:
            reserved = await purse.reserve(lambda: Need(tokens, 0, 0), tenant)
            await asyncio.sleep(1)
            purse.settle(reserved, tokens, 0.0)

    await asyncio.gather(one_after_the_other(0), one_after_the_other(0.5))


async def beside_steady(purse, tenant, work):
    """What `work` gives while a tenant keeps asking, and how long it took."""
    asking = asyncio.create_task(steady(purse, tenant, 10))
    await asyncio.sleep(0.1)
    began_s = asyncio.get_running_loop().time()
    outcome = (await asyncio.gather(asyncio.wait_for(work, 100), return_exceptions=True))[0]
    asking.cancel()
    return outcome, asyncio.get_running_loop().time() - began_s


def test_a_tenant_whose_share_is_spent_is_refused_at_once_while_another_keeps_asking():
    purse = Purse(Budget(Limits(max_tokens=100_000)), lambda: 0)
    spends(purse.budget, "b", 49_950)
    outcome, took_s = run(beside_steady(purse, "a", purse.reserve(lambda: Need(100, 50, 100), "b")))

    assert (type(outcome), took_s) == (BudgetExhaustedError, 0)


def test_a_tenant_whose_share_is_reserved_waits_for_its_own_calls_alone():
    purse = Purse(Budget(Limits(max_tokens=100_000)), lambda: 0)
    reserved = purse.budget.reserve(49_950, 0.0, 0, "b")

    async def scenario():
        asyncio.get_running_loop().call_later(20, lambda: purse.settle(reserved, 10, 0.0))
        return await beside_steady(purse, "a", purse.reserve(lambda: Need(100, 50, 100), "b"))

    outcome, took_s = run(scenario())
    assert (outcome.output_tokens, round(took_s)) == (100, 20)


def test_a_new_tenant_waits_for_the_calls_under_way_and_not_for_those_that_follow():
    purse = Purse(Budget(Limits(max_tokens=100_000)), lambda: 0)
    spends(purse.budget, "a", 99_000)
    outcome, took_s = run(
        beside_steady(purse, "a", purse.reserve(lambda: Need(2000, 50, 100), "b"))
    )

    assert isinstance(outcome, BudgetExhaustedError)
    assert took_s <= 1


def test_a_tenant_that_waits_for_its_turn_keeps_no_other_waiting():
    purse = Purse(Budget(Limits(max_tokens=100)), lambda: 0)
    purse.budget.reserve(1, 0.0, 0, "b")

    async def scenario():
        waiting = asyncio.create_task(purse.reserve(lambda: Need(90, 10, 10), "a"))
        await asyncio.sleep(1)
        reserved = await purse.reserve(lambda: Need(10, 1, 1), "b")
        waiting.cancel()
        return reserved.tokens

    assert run(scenario()) == 11
