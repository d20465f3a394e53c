"""Servers with one PostgreSQL store share the judge's budget and rates."""

import asyncio
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, text

from spanscore.errors import (
    BudgetExhaustedError,
    JudgeUnavailableError,
    PermanentError,
    RetryableError,
)
from spanscore.judge.budget import Need, SharedBudget, SharedPurse
from spanscore.judge.config import Budget
from spanscore.judge.pace import Timing
from spanscore.model.score import Spending
from spanscore.store import connections, stored_rows
from spanscore.store.config import Config
from spanscore.store.judges import JudgeLimits
from spanscore.store.store import Store

pytestmark = pytest.mark.postgresql

HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS


@pytest.fixture
def store(postgresql_server):
    opened = Store.open(Config(url=postgresql_server.create()))
    yield opened
    opened.close()


@pytest.fixture
def limits(store):
    """`limits()`: those of one more server on the store."""
    opened = []

    def make():
        opened.append(JudgeLimits(store.shared_url))
        return opened[-1]

    yield make
    for x in opened:
        x.close()


@pytest.fixture
def sql(store):
    engine = create_engine(store.shared_url)

    def run(statement, **values):
        with engine.begin() as connection:
            found = connection.execute(text(statement), values)
            return [tuple(x) for x in found] if found.returns_rows else []

    yield run
    engine.dispose()


def purse(limits, **budget):
    return SharedPurse(SharedBudget(Budget(**budget)), impatient(), limits)


def impatient():
    """A server that waits for others a hundredth of the time."""

    async def sleep(seconds):
        await asyncio.sleep(seconds / 100)

    return Timing(sleep=sleep)


async def spend_all(own, seed):
    """What calls of random cost did cost, of eight at once, until none is paid for any more."""
    chance, spent = random.Random(seed), []

    async def call():
        while True:
            usd = chance.uniform(0.002, 0.02)
            need = Need(1, 0, 0, 1.5 * usd)
            try:
                reserved = await own.reserve(lambda need=need: need, f"tenant {seed}")
            except BudgetExhaustedError:
                return
            await asyncio.sleep(0)
            own.settle(reserved, 1, usd)
            spent.append(usd)

    await asyncio.gather(*(call() for _ in range(8)))
    await own.refresh()
    return sum(spent)


def test_three_servers_spend_a_budget_and_not_more(limits, sql):
    purses = [purse(limits(), max_usd=1.0) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        spent = list(threads.map(lambda x, seed: asyncio.run(spend_all(x, seed)), purses, range(3)))

    assert 0.9 < sum(spent) <= 1.0
    assert sql("SELECT sum((text::json->>'usd')::float) FROM marks") == [
        (pytest.approx(sum(spent)),)
    ]


def test_a_server_that_is_killed_leaves_its_reservations_and_holds_up_no_other(store, limits):
    code = (
        "import asyncio, os, signal, sys\n"
        "from spanscore.judge.budget import Need\n"
        "from spanscore.judge.config import Budget\n"
        "from spanscore.judge.pace import Timing\n"
        "from spanscore.judge.budget import SharedBudget, SharedPurse\n"
        "from spanscore.store.judges import JudgeLimits\n"
        "limits = JudgeLimits(sys.argv[1])\n"
        "purse = SharedPurse(SharedBudget(Budget(max_tokens=100)), Timing(), limits)\n"
        "asyncio.run(purse.reserve(lambda: Need(60, 0, 0)))\n"
        "kill = lambda standing: os.kill(os.getpid(), signal.SIGKILL)\n"
        "limits.exchange('it', 86400 * 10**9, kill)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, store.shared_url], check=False)
    own = purse(limits(), max_tokens=100)
    asyncio.run(own.refresh())

    assert killed.returncode == -signal.SIGKILL
    assert own.budget.left(0) == {"tokens": (40, 100)}


def test_servers_see_what_others_spend_by_tenant(limits):
    one, other = limits(), limits()
    one.exchange("one", HOUR_NS, lambda _: {"a": Spending(7, 0.5, 2, 0.25), "b": Spending(1)})
    seen = []
    other.exchange("other", HOUR_NS, lambda x: seen.append(x) or {})

    assert seen[0].others == {"a": Spending(7, 0.5, 2, 0.25), "b": Spending(1)}


def test_a_server_is_not_told_of_its_own_spending(limits):
    one, seen = limits(), []
    one.exchange("one", HOUR_NS, lambda _: {"a": Spending(7)})
    one.exchange("one", HOUR_NS, lambda x: seen.append(x) or {"a": Spending(8)})
    limits().exchange("other", HOUR_NS, lambda x: seen.append(x) or {})

    assert [x.others for x in seen] == [{}, {"a": Spending(8)}]


def test_windows_of_another_length_are_counted_by_themselves(limits):
    one, seen = limits(), []
    one.exchange("one", HOUR_NS, lambda _: {"a": Spending(7)})
    one.exchange("other", DAY_NS, lambda x: seen.append(x) or {})

    assert (seen[0].others, seen[0].before) == ({}, set())


def test_who_spent_in_the_window_before_is_known_also_of_the_server_itself(limits, sql):
    one, seen = limits(), []
    one.exchange("one", DAY_NS, lambda _: {"a": Spending(7), "b": Spending(0)})
    sql("UPDATE marks SET number = number - :ns", ns=DAY_NS)
    one.exchange("one", DAY_NS, lambda x: seen.append(x) or {})

    assert (seen[0].others, seen[0].before) == ({}, {"a"})


def test_a_database_whose_clock_is_set_back_opens_no_spent_window(limits, sql):
    one, seen = limits(), []
    one.exchange("one", DAY_NS, lambda _: {"a": Spending(7)})
    sql("UPDATE marks SET number = number + :ns", ns=DAY_NS)
    one.exchange("other", DAY_NS, lambda x: seen.append(x) or {})

    assert seen[0].others == {"a": Spending(7)}


def test_a_server_that_has_long_been_silent_has_no_calls_under_way(limits, sql):
    one, seen = limits(), []
    one.exchange("one", DAY_NS, lambda _: {"a": Spending(7, 0.5, 2, 0.25)})
    sql("UPDATE marks SET text = (text::jsonb || jsonb_build_object('written_ns', 0))::text")
    one.exchange("other", DAY_NS, lambda x: seen.append(x) or {})

    assert seen[0].others == {"a": Spending(7, 0.5, 0, 0.0)}


def test_a_host_that_dies_while_it_decides_is_not_waited_for_long(limits, monkeypatch):
    shorter = connections._OF_SHARED.replace("session_timeout', '5s'", "session_timeout', '50ms'")
    monkeypatch.setattr(connections, "_OF_SHARED", shorter)
    has_begun, is_over = threading.Event(), threading.Event()

    def decide(_standing):
        has_begun.set()
        is_over.wait(60)
        return {"a": Spending(7)}

    with ThreadPoolExecutor(1) as threads:
        silent = threads.submit(limits().exchange, "one", DAY_NS, decide)
        has_begun.wait(60)
        limits().exchange("other", DAY_NS, lambda _: {})
        is_over.set()
        with pytest.raises(RetryableError, match="idle-in-transaction"):
            silent.result(60)


def test_a_store_without_its_tables_pays_for_nothing(limits, sql):
    sql("DROP TABLE marks")
    with pytest.raises(JudgeUnavailableError, match="marks"):
        asyncio.run(purse(limits(), max_tokens=100).reserve(lambda: Need(1, 0, 0)))


def test_what_the_database_refuses_is_no_slot(limits, sql):
    sql("DROP TABLE marks")
    with pytest.raises(PermanentError):
        limits().take_slot("m", 1.0)


def test_two_servers_take_no_more_slots_than_their_limit_has(limits, sql):
    servers = [limits(), limits()]
    servers[0].take_slot("m", 1.0)
    [(first_ns,)] = sql("SELECT number FROM marks WHERE kind = 'slot'")
    with ThreadPoolExecutor(2) as threads:
        waits_s = list(threads.map(lambda n: servers[n % 2].take_slot("m", 1.0), range(60)))
    [(last_ns,)] = sql("SELECT number FROM marks WHERE kind = 'slot'")

    assert len(set(waits_s)) == 60
    assert last_ns - first_ns >= 60 * 10**9


def test_the_first_call_of_a_model_waits_for_none(limits):
    own = limits()
    assert [own.take_slot(x, 30.0) for x in ("one", "other")] == [0.0, 0.0]


def test_a_slot_that_was_not_used_is_not_made_up_for(limits, sql):
    own = limits()
    own.take_slot("m", 30.0)
    sql("UPDATE marks SET number = number - :ns", ns=HOUR_NS)

    assert own.take_slot("m", 30.0) == 0.0
    assert own.take_slot("m", 30.0) > 15.0


def test_windows_and_slots_long_past_are_deleted(store, limits, sql):
    own = limits()
    own.exchange("one", DAY_NS, lambda _: {"a": Spending(7)})
    own.take_slot("m", 1.0)
    [(now_ns,)] = sql("SELECT number FROM marks WHERE kind = 'slot'")
    store.prune(now_ns)
    kept = sql("SELECT count(*) FROM marks WHERE kind <> 'version'")
    store.prune(now_ns + 4 * DAY_NS)

    assert (kept, sql("SELECT kind FROM marks")) == ([(2,)], [("version",)])


def test_a_model_with_a_long_name_has_slots_of_its_own(limits):
    own = limits()
    waits_s = [own.take_slot("m" * 300 + x, 30.0) for x in "aba"]
    assert waits_s[:2] == [0.0, 0.0]
    assert waits_s[2] > 15.0


def test_slots_and_spending_wait_for_no_commit(store, limits):
    """Also where rows of the same table are written: a wait would end in an error after 5 s."""
    own, seen = limits(), []
    own.take_slot("m", 1.0)
    own.exchange("one", HOUR_NS, lambda _: {"a": Spending(7)})
    with store._database.writing() as connection:
        stored_rows.note(connection, {"m": 1, "s": 1})
        own.take_slot("m", 1.0)
        own.exchange("one", HOUR_NS, lambda _: {"a": Spending(8)})
        limits().exchange("other", HOUR_NS, lambda x: seen.append(x) or {})

    assert seen[0].others == {"a": Spending(8)}


def test_a_commit_waits_for_no_server_that_decides(store, limits):
    def decide(_standing):
        store.commit([], [], evaluated={"s": 1})
        return {"a": Spending(7)}

    own, seen = limits(), []
    own.exchange("one", HOUR_NS, decide)
    own.exchange("other", HOUR_NS, lambda x: seen.append(x) or {})

    assert seen[0].others == {"a": Spending(7)}
