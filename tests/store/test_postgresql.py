"""Several servers on one PostgreSQL, whose connections may be cut while they run."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from spanscore.errors import ConflictError, RetryableError
from spanscore.store.config import Config
from spanscore.store.lookup import SessionReader
from spanscore.store.store import Store

pytestmark = pytest.mark.postgresql

ALWAYS_NS = 2**62


@pytest.fixture
def config(postgresql_server):
    return Config(url=postgresql_server.create())


@pytest.fixture
def serving(config):
    store = Store.open(config, alone=True)
    yield store
    store.close()


@pytest.fixture
def beside(config):
    """Another server on the same database."""
    store = Store.open(config, alone=True)
    yield store
    store.close()


def in_session(make, number, session="s"):
    return make.stored(make.trace(number, session_id=session))


def test_the_numbers_of_two_servers_are_those_of_one(serving, beside, make):
    numbers = [
        store.commit([make.stored(make.trace(n))], [make.score(make.trace(n))])
        for n, store in enumerate((serving, beside, beside, serving), 1)
    ]
    assert numbers == [[1], [2], [3], [4]]


def test_two_servers_that_commit_at_once_leave_no_gap(serving, beside, make):
    def commit(store, first):
        for n in range(first, first + 25):
            store.commit([make.stored(make.trace(n))], [make.score(make.trace(n))])

    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(commit, x, n) for x, n in ((serving, 1), (beside, 101))]
        for one in both:
            one.result(60)
    assert [seq for seq, _ in serving.outbox(0, 100)] == list(range(1, 51))


def test_the_same_score_of_two_servers_is_one(serving, beside, make):
    for store in (serving, beside):
        store.commit([], [make.score(make.trace())])
    assert len(serving.outbox(0, 10)) == 1


def test_a_trace_that_another_server_has_committed_as_this_revision_is_refused(
    serving, beside, make
):
    serving.commit([make.stored(make.trace())], [])
    with pytest.raises(ConflictError):
        beside.commit([replace(make.stored(make.trace(final_output="late")), digest="late")], [])
    assert beside.commit([make.stored(make.trace(), 2)], []) == []


def test_a_session_stays_open_where_another_server_was_first_with_its_scores(serving, beside, make):
    of_session = make.score(make.trace(session_id="s"), scope="session", subject_id="s")
    serving.commit([in_session(make, 1)], [of_session])
    beside.commit([in_session(make, 2)], [of_session], evaluated={"s": 2})
    assert [key for key, _ in serving.open_sessions()] == ["s"]


def test_other_scores_of_a_session_that_another_server_was_first_with_are_refused(
    serving, beside, make
):
    of_session = {"scope": "session", "subject_id": "s"}
    serving.commit([], [make.score(make.trace(1, session_id="s"), **of_session)])
    with pytest.raises(ConflictError):
        beside.commit([], [make.score(make.trace(2, session_id="s"), **of_session)])


def test_one_of_two_servers_leads_until_it_is_closed(serving, beside):
    assert [serving.lead(), beside.lead(), serving.lead()] == [True, False, True]
    serving.close()
    assert beside.lead()


def test_a_server_whose_connections_were_cut_leads_no_more_unless_it_is_first(
    serving, beside, config
):
    assert serving.lead()
    cut_connections(serving, config)
    while not beside.lead():  # the database ends connections in its own time
        pass
    with pytest.raises(RetryableError):
        serving.lead()
    assert not serving.lead()


def test_a_session_that_one_server_evaluates_is_left_alone_by_the_others(
    serving, beside, make, clock
):
    serving.commit([in_session(make, 1)], [])
    assert serving.claim_sessions(["s"], ALWAYS_NS) == (["s"], {})
    mine, later = beside.claim_sessions(["s"], ALWAYS_NS)
    assert not mine
    assert list(later) == ["s"]


def test_a_session_that_another_server_has_evaluated_is_not_evaluated_again(serving, beside, make):
    serving.commit([in_session(make, 1)], [])
    serving.claim_sessions(["s"], ALWAYS_NS)
    serving.commit([], [], evaluated={"s": 1})
    serving.release_sessions(["s"])
    assert beside.claim_sessions(["s"], ALWAYS_NS) == ([], {})


def test_a_session_that_is_asked_about_again_is_evaluated_though_it_has_not_gone_on(serving, make):
    serving.commit([in_session(make, 1)], [], evaluated={"s": 1})
    assert serving.claim_sessions(["s"], ALWAYS_NS, again=["s"]) == (["s"], {})


def test_a_session_that_goes_on_at_another_server_is_not_quiet_yet(serving, beside, make):
    beside.commit([in_session(make, 1)], [])
    mine, later = serving.claim_sessions(["s"], 1)
    assert not mine
    assert later["s"] > 1


def test_sessions_of_a_server_that_died_are_found_by_when_they_went_on(serving, make):
    before_ns = time.time_ns()
    serving.commit([in_session(make, 1)], [])
    assert [key for key, _ in serving.open_sessions(before_ns)] == ["s"]
    assert serving.open_sessions(time.time_ns() + 10**9) == []


def test_a_database_that_crashed_has_lost_nothing_and_is_used_again(
    serving, postgresql_server, make
):
    serving.commit([make.stored(make.trace(1))], [make.score(make.trace(1))])
    postgresql_server.crash()
    with pytest.raises(RetryableError):
        serving.commit([make.stored(make.trace(2))], [make.score(make.trace(2))])
    postgresql_server.start()
    assert serving.commit([make.stored(make.trace(2))], [make.score(make.trace(2))]) == [2]
    assert [serving.trace(make.trace(n).id) for n in (1, 2)] == [make.trace(1), make.trace(2)]


def test_a_server_that_has_nothing_to_do_finds_out_that_its_database_is_back(
    serving, postgresql_server, make
):
    postgresql_server.crash()
    with pytest.raises(RetryableError):
        serving.commit([make.stored(make.trace())], [])
    postgresql_server.start()
    while serving.trouble:
        with contextlib.suppress(RetryableError):  # a connection of before
            serving.try_again()


def cut_connections(store, config):
    """End those of a store as the database does when it restarts."""
    store._database.engine.pool.dispose()
    with create_engine(config.url).connect() as admin:
        admin.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                " 'spanscore%'"
            )
        )


def test_sessions_are_not_waited_for_where_their_table_is_locked(serving, config):
    engine = create_engine(config.url)
    with ThreadPoolExecutor(1) as threads, engine.connect() as holder:
        holder.execute(text("LOCK TABLE agent_traces IN ACCESS EXCLUSIVE MODE"))
        reading = threads.submit(SessionReader(config).read, ["s"])
        try:
            with pytest.raises(RetryableError, match="statement timeout"):
                reading.result(60)
        finally:
            holder.rollback()
    engine.dispose()
