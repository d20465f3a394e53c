"""Servers that share a database keep one budget and one rate together."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from virtual_time import run, timing

from spanscore.errors import BudgetExhaustedError, JudgeUnavailableError, RetryableError
from spanscore.judge.budget import Budget, Need, Purse, SharedBudget, SharedPurse, open_purse
from spanscore.judge.config import Budget as Limits, Config
from spanscore.judge.pace import Pace, Timing
from spanscore.judge.provider import Completion
from spanscore.judge.queues import Lane, Queues
from spanscore.model.score import Spending, Standing

DAY_NS = 86400 * 10**9
FAILING = RetryableError("the store cannot be used", retry_after_s=5.0)


class Database:
    """The rows of all servers, as the real one keeps them."""

    def __init__(self) -> None:
        self.window = 10
        self.rows: dict[tuple[int, str, str], Spending] = {}
        self.exchanges = 0
        self.failing_at: str | None = None
        self.slots_s: dict[str, float] = {}
        self.now_s: Callable[[], float] = lambda: 0.0

    def exchange(self, server, _window_ns, decide):
        self.exchanges += 1
        if self.failing_at == "connecting":
            raise FAILING
        others: dict[str, Spending] = {}
        for (window, name, tenant), x in self.rows.items():
            if window == self.window and name != server:
                sums = zip(others.get(tenant, Spending()), x, strict=True)
                others[tenant] = Spending(*(a + b for a, b in sums))
        before = {tenant for window, _, tenant in self.rows if window == self.window - 1}
        written = decide(Standing(self.window, others, before))
        if self.failing_at == "writing":
            raise FAILING
        for tenant, x in written.items():
            self.rows[self.window, server, tenant] = x
        if self.failing_at == "committed":
            raise FAILING

    def take_slot(self, model, interval_s):
        start_s = max(self.slots_s.get(model, 0.0), self.now_s())
        self.slots_s[model] = start_s + interval_s
        return start_s - self.now_s()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The database answers at once: the virtual clock cannot wait for threads."""

    async def in_this_thread(task, *arguments):
        await asyncio.sleep(0)
        return task(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", in_this_thread)


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def server(database):
    """`server(max_tokens=100)`: the purse of one more server on the database, by the loop's
    clock.
    """

    def make(late_ns=0, **limits):
        when = timing()
        clock = Timing(lambda: when.clock_ns() + late_ns, when.sleep, when.chance)
        return SharedPurse(SharedBudget(Limits(**limits)), clock, database)

    return make


def need(tokens):
    """Of a call that takes so many tokens, and no output."""
    return lambda: Need(tokens, 0, 0)


def test_what_one_server_has_reserved_no_other_can_spend(server):
    async def scenario():
        one, other = server(max_tokens=100), server(max_tokens=100)
        one.settle(await one.reserve(need(60)), 60, 0.0)
        await one.refresh()
        await other.reserve(need(41))

    with pytest.raises(BudgetExhaustedError, match=r"judge\.budget\.max_tokens = 100 .* \(60\)"):
        run(scenario())


def test_what_a_call_did_not_cost_another_server_can_spend(server):
    async def scenario():
        one, other = server(max_tokens=100), server(max_tokens=100)
        one.settle(await one.reserve(need(60)), 10, 0.0)
        await one.refresh()
        return (await other.reserve(need(90))).tokens

    assert run(scenario()) == 90


def test_a_call_waits_for_what_another_server_has_under_way(server):
    async def scenario():
        one, other = server(max_tokens=100), server(max_tokens=100)
        under_way = await one.reserve(need(60))
        waiting = asyncio.create_task(other.reserve(need(90)))
        await asyncio.sleep(20)
        one.settle(under_way, 10, 0.0)
        await one.refresh()
        return (await waiting).tokens

    assert run(scenario()) == 90


def test_a_server_that_died_leaves_what_it_has_reserved_as_spent(server):
    async def scenario():
        await server(max_tokens=100).reserve(need(60))
        await server(max_tokens=100).reserve(need(41))

    with pytest.raises(BudgetExhaustedError, match=r"is spent \(60\)"):
        run(scenario())


def test_a_server_that_waits_in_vain_for_a_dead_one_gives_up_after_a_minute(server):
    async def scenario():
        await server(max_tokens=100).reserve(need(60))
        with pytest.raises(BudgetExhaustedError):
            await server(max_tokens=100).reserve(need(41))
        return asyncio.get_running_loop().time()

    assert run(scenario()) == pytest.approx(60, abs=2)


def test_nobody_is_waited_for_where_even_that_would_not_be_enough(server):
    async def scenario():
        spent = server(max_tokens=100)
        spent.settle(await spent.reserve(need(60)), 60, 0.0)
        await spent.reserve(need(10))
        with pytest.raises(BudgetExhaustedError):
            await server(max_tokens=100).reserve(need(41))
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 0


def test_a_restart_goes_on_with_what_was_spent(server):
    async def scenario():
        before = server(max_usd=1.0)
        before.settle(await before.reserve(lambda: Need(1, 0, 0, 0.75)), 1, 0.5)
        await before.refresh()
        restarted = server(max_usd=1.0)
        await restarted.refresh()
        return restarted.budget.left(0)

    assert run(scenario()) == {"usd": (0.5, 1.0)}


def test_a_share_is_kept_for_a_tenant_that_spends_at_another_server(server):
    async def scenario():
        one, other = server(max_tokens=100), server(max_tokens=100)
        one.settle(await one.reserve(need(10), "a"), 10, 0.0)
        await one.refresh()
        await other.reserve(need(51), "b")

    with pytest.raises(BudgetExhaustedError, match="the tenant's share"):
        run(scenario())


def test_a_share_is_kept_for_who_has_spent_in_the_window_before(server, database):
    async def scenario():
        await server(max_tokens=100).reserve(need(10), "a")
        database.window += 1
        await server(max_tokens=100).reserve(need(51), "b")

    with pytest.raises(BudgetExhaustedError, match="the tenant's share"):
        run(scenario())


def test_a_server_whose_clock_is_ahead_opens_no_window(server):
    async def scenario():
        spent = server(max_tokens=100)
        spent.settle(await spent.reserve(need(100)), 100, 0.0)
        await spent.refresh()
        await server(late_ns=2 * DAY_NS, max_tokens=100).reserve(need(1))

    with pytest.raises(BudgetExhaustedError):
        run(scenario())


def test_the_next_window_of_the_database_begins_empty(server, database):
    async def scenario():
        purse = server(max_tokens=100)
        await purse.reserve(need(100))
        database.window += 1
        return (await purse.reserve(need(100))).tokens

    assert run(scenario()) == 100


def test_a_call_that_ends_in_the_next_window_leaves_that_alone(server, database):
    async def scenario():
        purse = server(max_tokens=100)
        late = await purse.reserve(need(100))
        database.window += 1
        await purse.reserve(need(50))
        purse.settle(late, 0, 0.0)
        await purse.refresh()
        return purse.budget.left(0)

    assert run(scenario()) == {"tokens": (50, 100)}


def test_nothing_is_sent_while_the_database_does_not_answer(server, database):
    async def scenario():
        purse = server(max_tokens=100)
        database.failing_at = "connecting"
        with pytest.raises(JudgeUnavailableError, match="the store cannot be used"):
            await purse.reserve(need(1))
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 30


@pytest.mark.parametrize("failing_at", ["connecting", "writing", "committed"])
def test_a_database_that_fails_for_a_while_changes_nothing(server, database, failing_at):
    async def scenario():
        purse = server(max_tokens=100)
        settled = await purse.reserve(need(50))
        database.failing_at = failing_at
        purse.settle(settled, 20, 0.0)
        waiting = asyncio.create_task(purse.reserve(need(30)))
        await asyncio.sleep(12)
        database.failing_at = None
        await waiting
        other = server(max_tokens=100)
        await other.refresh()
        return other.budget.left(0)

    assert run(scenario()) == {"tokens": (50, 100)}


def test_a_call_that_nobody_waits_for_any_more_is_not_paid(server):
    async def scenario():
        purse = server(max_tokens=100)
        calling = asyncio.create_task(purse.reserve(need(60)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.sleep(1)
        await purse.refresh()
        return calling.cancelled(), purse.budget.left(0)

    assert run(scenario()) == (True, {"tokens": (100, 100)})


def test_calls_of_several_tenants_at_once_are_booked_together(server, database):
    async def scenario():
        purse = server(max_tokens=10_000)
        await asyncio.gather(*(purse.reserve(need(1), f"tenant {x}") for x in range(100)))

    run(scenario())
    assert database.exchanges <= 2


def test_without_a_limit_the_database_is_not_asked(database):
    async def scenario():
        await open_purse(Limits(), timing(), database).reserve(need(10**9))

    run(scenario())
    assert database.exchanges == 0


def test_without_a_database_the_budget_is_this_process_own():
    purse = open_purse(Limits(max_usd=1), Timing(), None)
    assert (type(purse), type(purse.budget)) == (Purse, Budget)


async def sent_by(servers, calls, database, tokens=0.0, **rates):
    """At which seconds so many calls of each of several servers were sent."""
    loop = asyncio.get_running_loop()
    database.now_s, sent_s = loop.time, []

    async def send():
        sent_s.append(loop.time())
        return Completion("", 1, 1, None)

    waiting = []
    for _ in range(servers):
        pace = Pace(**rates)
        lane = Lane("m", asyncio.Semaphore(8), 8, timing(), 180.0, pace, database)
        waiting += [lane.call(lane.place(), tokens, send) for _ in range(calls)]
    await asyncio.gather(*waiting)
    return sent_s


@pytest.mark.parametrize(
    "limit", [{"requests_per_s": 1.0}, {"tokens_per_s": 500.0, "tokens": 500.0}]
)
def test_two_servers_send_what_one_may_and_no_more(database, limit):
    sent_s = run(sent_by(2, 60, database, **limit))
    by_minute = Counter(x // 60 for x in sent_s)

    assert max(by_minute.values()) == 60
    assert max(sent_s) == pytest.approx(119)


def test_a_rate_that_is_learnt_is_each_server_s_own(database):
    run(sent_by(2, 10, database))
    assert database.slots_s == {}


def test_a_server_takes_no_slot_before_it_may_send(database):
    async def scenario():
        config = Config(model="m", requests_per_minute=60)
        lane = Queues(config, timing(), database).lane("m", config)
        waiting = [asyncio.create_task(lane.call(lane.place(), 0.0, answered)) for _ in range(10)]
        await asyncio.sleep(0.5)
        for x in waiting:
            x.cancel()
        return database.slots_s

    async def answered():
        return Completion("", 1, 1, None)

    assert run(scenario()) == {"m": 1.0}


def test_a_call_without_a_slot_leaves_its_place_to_others(database, monkeypatch):
    def failing(_model, _interval_s):
        raise FAILING

    async def scenario():
        slots = asyncio.Semaphore(1)
        lane = Lane("m", slots, 8, timing(), 180.0, Pace(1.0), database)
        with pytest.raises(JudgeUnavailableError):
            await lane.call(lane.place(), 0.0, None)
        return slots.locked()

    monkeypatch.setattr(database, "take_slot", failing)
    assert run(scenario()) is False
