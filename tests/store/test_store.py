"""What is committed is found again; the outbox counts without gaps."""

import sqlite3
import threading
from dataclasses import replace

import pytest
from sqlalchemy import select

from spanscore.errors import ConfigError, RetryableError
from spanscore.model.score import Evaluator, Skip
from spanscore.model.trace import Session
from spanscore.store import records, schema
from spanscore.store.config import Config
from spanscore.store.lookup import MAX_SESSION_BYTES, RecentTurns
from spanscore.store.store import MAX_SESSION_TRACES, Store, StoredTrace

_EVALUATED = select(schema.marks).where(schema.marks.c.kind == "evaluated")


def test_a_trace_is_found_by_its_agent_trace_id(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [])
    assert store.trace(trace.id) == trace


def test_a_trace_is_found_by_each_of_its_otel_trace_ids(store, make):
    trace = make.trace(trace_ids=("a" * 32, "b" * 32))
    store.commit([make.stored(trace)], [])
    assert [store.trace("a" * 32), store.trace("B" * 32)] == [trace, trace]


def test_an_otel_trace_of_several_turns_gives_the_first(store, make):
    later, first = (make.trace(n, trace_ids=("a" * 32,)) for n in (2, 1))
    store.commit([make.stored(later), make.stored(first)], [])
    assert store.trace("a" * 32) == first


def test_an_unknown_trace_is_none(store):
    assert store.trace("a" * 32) is None


def test_turns_of_another_tenant_are_no_turns_before(store, make):
    turns = [
        make.trace(n, session_id="s", session_key=key)
        for n, key in ((1, "a:s"), (2, "b:s"), (3, "a:s"))
    ]
    store.commit([make.stored(x) for x in turns], [])
    assert store.turns_before(turns[2], **BOUNDS) == [turns[0]]


def test_a_session_id_stands_for_the_sessions_of_all_tenants_that_have_it(store, make):
    turns = [
        make.trace(n, session_id="s", session_key=key)
        for n, key in ((1, "s"), (2, "a:s"), (3, "b:s"))
    ]
    store.commit([make.stored(x) for x in turns], [make.score(x) for x in turns])
    assert store.session_keys("s") == ["s", "a:s", "b:s"]
    assert [x.target for x in store.evaluations(session_id="s")] == [x.target for x in turns]


def test_a_session_key_stands_for_one_session(store, make):
    turns = [make.trace(n, session_id="s", session_key=key) for n, key in ((1, "s"), (2, "a:s"))]
    store.commit([make.stored(x) for x in turns], [make.score(x) for x in turns])
    assert [x.target for x in store.evaluations(session_id="a:s")] == [turns[1].target]


def test_sessions_of_one_id_are_read_each_by_itself(store, make):
    turns = [
        make.trace(n, session_id="s", session_key=key)
        for n, key in ((1, "a:s"), (2, "b:s"), (3, "a:s"))
    ]
    store.commit([make.stored(x) for x in turns], [])
    found = store.sessions(["a:s", "b:s"])
    assert [(x.session.session_id, x.session.id, len(x.session.traces)) for x in found] == [
        ("s", "a:s", 2),
        ("s", "b:s", 1),
    ]


BOUNDS = {"limit": 10, "max_bytes": 10**6}


def test_the_turns_before_a_trace_are_those_of_its_session_that_began_earlier(store, make):
    turns = [make.trace(n, session_id="s") for n in (1, 2, 3, 4)]
    store.commit(
        [make.stored(x) for x in (turns[1], turns[3], turns[0], make.trace(5, session_id="other"))],
        [],
    )
    assert store.turns_before(turns[2], **BOUNDS) == turns[:2]


def test_of_many_turns_before_a_trace_the_newest_are_read(store, make):
    turns = [make.trace(n, session_id="s") for n in (1, 2, 3, 4)]
    store.commit([make.stored(x) for x in turns], [])
    assert store.turns_before(turns[3], limit=2, max_bytes=10**6) == turns[1:3]


def test_of_long_turns_before_a_trace_the_newest_that_fit_are_read(store, make):
    turns = [make.trace(n, session_id="s", final_output="x" * 5000) for n in (1, 2, 3, 4)]
    store.commit([make.stored(x) for x in turns], [])
    assert store.turns_before(turns[3], limit=10, max_bytes=14_000) == turns[1:3]


def test_a_turn_that_has_changed_comes_before_a_trace_as_it_is_now(store, make):
    first, last = (make.trace(n, session_id="s") for n in (1, 2))
    now = replace(first, final_output="now")
    store.commit([make.stored(first)], [])
    before = store.turns_before(last, **BOUNDS)
    store.commit([StoredTrace(now, 2, "digest 2", records.encode(now))], [])
    assert (before, store.turns_before(last, **BOUNDS)) == ([first], [now])


def test_turns_are_remembered_up_to_so_many_bytes(store, make):
    turns = [make.trace(n, session_id="s") for n in (1, 2, 3)]
    store.commit([make.stored(x) for x in turns], [])
    recent = RecentTurns(max_bytes=20)
    for turn in turns[:2]:
        recent.add(turn, "digest 1", 15)
    found = store.read(lambda connection: recent.before(connection, "s", turns[2], **BOUNDS))
    assert found == turns[:2]
    assert [x is y for x, y in zip(found, turns, strict=False)] == [False, True]


def test_a_trace_without_a_session_has_no_turns_before_it(store, make):
    store.commit([make.stored(make.trace(1))], [])
    assert store.turns_before(make.trace(2), **BOUNDS) == []


def test_a_later_revision_takes_the_place_of_the_earlier(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [])
    changed = replace(trace, user_input="changed")
    store.commit([make.stored(changed, 2)], [])
    assert (store.trace(trace.id), store.known([trace.id, "no"])) == (
        changed,
        {trace.id: (2, "digest 2")},
    )


def test_a_later_revision_is_found_by_the_otel_traces_that_it_has_more_than_the_earlier(
    store, make
):
    trace = make.trace(trace_ids=("a" * 32,))
    store.commit([make.stored(trace)], [])
    grown = replace(trace, trace_ids=("a" * 32, "b" * 32))
    store.commit([make.stored(grown, 2)], [])
    assert store.trace("b" * 32) == grown


def test_an_agent_trace_that_is_gone_is_found_no_more(store, make):
    alone, turn = make.trace(2), make.trace(1, trace_ids=(f"{1:032x}", f"{2:032x}"))
    store.commit([make.stored(alone)], [make.score(alone)])
    store.commit([make.stored(turn)], [], gone=[alone.id])
    assert (store.trace(alone.id), store.trace(f"{2:032x}")) == (None, turn)


def test_what_is_gone_takes_no_room(store, make):
    store.commit([make.stored(make.trace(1))], [])
    before = store.size_bytes
    store.commit([make.stored(make.trace(2))], [])
    store.commit([], [], gone=[make.trace(2).id, "unknown"])
    assert store.size_bytes == before


def test_left_over_are_the_agent_traces_of_otel_traces_but_for_those_that_are_known(store, make):
    traces = [make.trace(n) for n in (1, 2, 3)]
    store.commit([make.stored(x) for x in traces], [])
    assert store.left_over([f"{n:032x}" for n in (1, 2)], [traces[0].id], tenant="") == [
        traces[1].id
    ]


def test_an_agent_trace_that_has_another_otel_trace_besides_is_not_left_over(store, make):
    store.commit([make.stored(make.trace(trace_ids=("a" * 32, "b" * 32)))], [])
    assert store.left_over(["a" * 32], [], tenant="") == []


def test_sequence_numbers_rise_by_one_over_commits(store, make):
    traces = [make.trace(n) for n in (1, 2)]
    numbers = [
        store.commit([make.stored(t)], [make.score(t, "a"), make.score(t, "b")]) for t in traces
    ]
    assert numbers == [[1, 2], [3, 4]]


def test_sequence_numbers_go_on_after_a_restart(open_store, make):
    trace = make.trace()
    open_store().commit([], [make.score(trace, "a")])
    assert open_store().commit([], [make.score(trace, "b")]) == [2]


def test_a_second_commit_of_the_same_score_is_ignored(store, make):
    trace = make.trace()
    store.commit([], [make.score(trace, "a"), make.score(trace, "b")])
    numbers = store.commit([], [make.score(trace, "b", value=0.1), make.score(trace, "c")])
    assert (numbers, [x.value for _, x in store.outbox(0, 10)]) == ([2, 3], [0.75, 0.75, 0.75])


def test_the_same_score_twice_in_one_commit_is_kept_once(store, make):
    score = make.score(make.trace())
    assert (store.commit([], [score, score]), len(store.outbox(0, 10))) == ([1, 1], 1)


def test_threads_that_commit_at_once_share_no_number(store, make):
    numbers = []

    def commit(number):
        numbers.extend(store.commit([], [make.score(make.trace(number), m) for m in "abc"]))

    threads = [threading.Thread(target=commit, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 25))


def test_the_outbox_gives_what_comes_after_a_number(store, make):
    scores = [make.score(make.trace(), metric) for metric in "abcd"]
    store.commit([], scores)
    assert store.outbox(1, 2) == [(2, scores[1]), (3, scores[2])]


def test_a_new_exporter_has_no_cursor(store):
    assert store.cursor("otlp_grpc") is None


def test_a_cursor_outlives_a_restart(open_store):
    store = open_store()
    store.set_cursor("otlp_grpc", 4)
    store.set_cursor("otlp_grpc", 7)
    assert open_store().cursor("otlp_grpc") == 7


def test_numbers_are_not_used_again_when_all_scores_are_gone(open_store, make, clock):
    store = open_store(max_age="1s")
    store.commit([], [make.score(make.trace())])
    store.set_cursor("otlp_grpc", 1)
    store.prune(clock.now_ns + 2 * 10**9)
    assert open_store().commit([], [make.score(make.trace(2))]) == [2]


def test_a_trace_has_the_newest_revision_of_each_metric(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace, "a", 0.1), make.score(trace, "b", 0.2)])
    store.commit([], [make.score(trace, "a", 0.9, revision=2)])
    assert [(x.metric, x.value) for x in store.evaluations(trace_id=trace.id)] == [
        ("b", 0.2),
        ("a", 0.9),
    ]


def test_a_lower_revision_committed_later_is_not_the_newest(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace, "a", 0.9, revision=2)])
    store.commit([], [make.score(trace, "a", 0.1, revision=1)])
    assert [x.value for x in store.evaluations(trace_id=trace.id)] == [0.9]


def test_scores_are_found_by_otel_trace_id(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace)])
    assert len(store.evaluations(trace_id=trace.trace_ids[0])) == 1


def test_a_session_has_its_traces_oldest_first(store, make):
    traces = [make.trace(n, session_id="s") for n in (3, 1, 2)]
    store.commit([make.stored(t) for t in traces], [])
    (found,) = store.sessions(["s"])
    assert [t.started_ns for t in found.session.traces] == [1000, 2000, 3000]


def test_sessions_come_in_the_order_asked_for_each_with_its_own(store, make):
    traces = {name: make.trace(n, session_id=name) for n, name in enumerate("abc", 1)}
    store.commit(
        [make.stored(t) for t in traces.values()], [make.score(t) for t in traces.values()]
    )
    found = store.sessions(["c", "unknown", "a"])
    assert [
        (x.session.session_id, x.session.traces, [y.subject_id for y in x.scores]) for x in found
    ] == [("c", (traces["c"],), [traces["c"].id]), ("a", (traces["a"],), [traces["a"].id])]


@pytest.mark.slow
def test_more_sessions_than_one_statement_can_name_are_found(store, make):
    traces = [make.trace(n, session_id=f"s{n}") for n in range(1, 1001)]
    store.commit([make.stored(t) for t in traces], [make.score(t) for t in traces])
    found = store.sessions([t.session_id for t in traces])
    assert [x.scores[0].subject_id for x in found] == [t.id for t in traces]


def test_a_session_asked_for_twice_comes_once(store, make):
    store.commit([make.stored(make.trace(session_id="s"))], [])
    assert len(store.sessions(["s", "s"])) == 1


def test_an_unknown_session_is_left_out(store):
    assert store.sessions(["s"]) == []


def test_no_sessions_are_no_question(store):
    assert store.sessions([]) == []


def test_a_session_of_too_many_traces_keeps_the_newest(store, make):
    traces = [make.trace(n, session_id="s") for n in range(1, MAX_SESSION_TRACES + 3)]
    store.commit([make.stored(t) for t in traces], [])
    found = store.sessions(["s"])[0].session.traces
    assert (len(found), found[0].started_ns) == (MAX_SESSION_TRACES, 3000)


def test_of_a_session_with_large_traces_the_newest_are_read(store, make):
    large = "x" * (MAX_SESSION_BYTES // 3)
    traces = [make.trace(n, session_id="s", user_input=large) for n in range(1, 6)]
    store.commit([make.stored(x) for x in traces], [])
    [found] = store.sessions(["s"])
    assert [x.id for x in found.session.traces] == [traces[3].id, traces[4].id]


@pytest.mark.slow
def test_of_a_session_the_newest_trace_is_read_however_large_it_is(store, make):
    trace = make.trace(1, session_id="s", user_input="x" * MAX_SESSION_BYTES)
    store.commit([make.stored(trace)], [])
    assert [x.id for x in store.sessions(["s"])[0].session.traces] == [trace.id]


def test_a_session_has_its_own_scores_and_those_of_its_traces(store, make):
    trace = make.trace(session_id="s")
    own = make.score(trace, "satisfaction", scope="session", subject_id="s")
    store.commit([make.stored(trace)], [make.score(trace), own])
    assert {x.scope for x in store.evaluations(session_id="s")} == {"trace", "session"}


def test_a_session_has_the_newest_revision_of_each_score(store, make):
    trace = make.trace(session_id="s")
    old, new = (
        [
            make.score(trace, x, scope=x, subject_id=y, revision=n)
            for x, y in (("trace", trace.id), ("session", "s"))
        ]
        for n in (1, 2)
    )
    store.commit([make.stored(trace)], old)
    store.commit([], new)
    assert store.sessions(["s"])[0].scores == new


def test_the_later_of_two_scores_of_one_revision_is_the_newest(store, make):
    trace = make.trace()
    store.commit([make.stored(trace)], [make.score(trace, value=0.1)])
    store.commit([], [make.score(trace, value=0.2, evaluator=Evaluator("CODE", "rules", "2"))])
    assert [x.value for x in store.evaluations(trace_id=trace.id)] == [0.2]


@pytest.mark.slow
@pytest.mark.parametrize("session_id", ["x" * 10_000, "a\0b", "\ud800", "naïve 会話 👩‍🚀"])
def test_any_text_can_be_a_session_id(store, make, session_id):
    trace = make.trace(session_id=session_id)
    own = make.score(trace, scope="session", subject_id=session_id)
    store.commit([make.stored(trace)], [own])
    (found,) = store.sessions([session_id])
    assert (found.session, found.scores) == (Session(session_id, (trace,)), [own])


def test_a_session_that_was_open_before_a_restart_has_its_own_id_back(store, make):
    session_id = "x" * 10_000
    store.commit([make.stored(make.trace(session_id=session_id))], [])
    ((key, _),) = store.open_sessions()
    assert store.sessions([key])[0].session.session_id == session_id


def scored(store, make, trace, **facts):
    """Commit a score of the session "s" as it is read now."""
    (found,) = store.sessions(["s"])
    own = make.score(trace, scope="session", subject_id="s", **facts)
    store.commit([], [own], evaluated={"s": found.until_row})


def test_a_session_is_open_until_it_is_evaluated(store, make, clock):
    trace = make.trace(session_id="s")
    store.commit([make.stored(trace)], [])
    before = store.open_sessions()
    scored(store, make, trace)
    assert (before, store.open_sessions()) == ([("s", clock.now_ns)], [])


def test_a_session_that_goes_on_is_open_again(store, make, clock):
    trace = make.trace(session_id="s")
    store.commit([make.stored(trace)], [])
    scored(store, make, trace, outcome=Skip("short"))
    clock.now_ns += 10
    store.commit([make.stored(make.trace(2, session_id="s"))], [])
    assert store.open_sessions() == [("s", clock.now_ns)]


@pytest.mark.slow
@pytest.mark.parametrize("later_ns", [0, 10, -10], ids=["as soon", "later", "by a clock set back"])
def test_a_session_whose_turn_was_stored_while_it_was_evaluated_is_open_after_a_restart(
    open_store, make, clock, later_ns
):
    store = open_store()
    trace = make.trace(session_id="s")
    store.commit([make.stored(trace)], [])
    (found,) = store.sessions(["s"])
    clock.now_ns += later_ns
    store.commit([make.stored(make.trace(2, session_id="s"))], [])
    own = make.score(trace, scope="session", subject_id="s", evaluated_at_ns=clock.now_ns + 99)
    store.commit([], [own], evaluated={"s": found.until_row})
    store.close()
    assert [key for key, _ in open_store().open_sessions()] == ["s"]


def test_a_session_whose_traces_are_all_pruned_is_open_when_it_goes_on(open_store, make, clock):
    store = open_store(max_age="1h")
    for number in (1, 2):
        store.commit([make.stored(make.trace(number, session_id="s"))], [])
    scored(store, make, make.trace(1, session_id="s"))
    clock.now_ns += 2 * 3600 * 10**9
    store.prune(clock.now_ns)
    store.close()
    store = open_store(max_age="1h")
    store.commit([make.stored(make.trace(3, session_id="s"))], [])
    assert [key for key, _ in store.open_sessions()] == ["s"]


def test_what_is_known_of_evaluated_sessions_goes_with_the_last_trace(open_store, make, clock):
    store = open_store(max_age="1h")
    store.commit([make.stored(make.trace(1, session_id="s"))], [])
    scored(store, make, make.trace(1, session_id="s"))
    clock.now_ns += 2 * 3600 * 10**9
    store.prune(clock.now_ns)
    assert store.read(lambda x: x.execute(_EVALUATED).all()) == []


def test_what_is_known_of_evaluated_sessions_goes_with_their_traces(store, open_store, make, clock):
    store.commit([make.stored(make.trace(1, session_id="s"))], [])
    scored(store, make, make.trace(1, session_id="s"))
    clock.now_ns += 10**18
    store.commit([make.stored(make.trace(2, session_id="t"))], [])
    store.prune(clock.now_ns)
    assert store.read(lambda x: x.execute(_EVALUATED).all()) == []


def test_a_session_revision_counts_its_own_scores_only(store, make):
    trace = make.trace(session_id="s")
    store.commit([make.stored(trace)], [make.score(trace, revision=7)])
    (before,) = store.sessions(["s"])
    store.commit([], [make.score(trace, scope="session", subject_id="s", revision=2)])
    (after,) = store.sessions(["s"])
    assert (before.revision, after.revision) == (0, 2)


def test_a_judges_answer_is_kept(open_store):
    store = open_store()
    store.put({"key": "old"})
    store.put({"key": "new"})
    assert open_store().get(["key", "other"]) == {"key": "new"}


def test_a_locked_file_is_a_fault_that_may_pass(tmp_path, make):
    url = f"sqlite:///{tmp_path}/spanscore.db"
    store = Store.open(Config(url=url, busy_timeout="1ms"))
    other = sqlite3.connect(tmp_path / "spanscore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetryableError, match="locked"):
        store.commit([], [make.score(make.trace())])
    other.close()
    assert store.commit([], [make.score(make.trace())]) == [1]


def test_a_judge_is_not_told_of_a_locked_file(tmp_path):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db", busy_timeout="1ms"))
    other = sqlite3.connect(tmp_path / "spanscore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.put({"key": "value"})
    other.close()
    assert store.get(["key"]) == {}


def test_a_full_disk_is_a_fault_that_may_pass(tmp_path, make):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    with store._database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(RetryableError, match="full"):
        store.commit([make.stored(make.trace(user_input="x" * 10**6))], [])
    store.close()


def test_text_that_no_database_takes_as_it_is_comes_back(store, make):
    trace = make.trace(session_id="a\0b", user_input="nul \0, 100 %, :name")
    store.commit([make.stored(trace)], [make.score(trace)])
    assert (store.trace(trace.id), store.sessions(["a\0b"])[0].session.traces) == (trace, (trace,))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "not a database URL"),
        ("sqlite://", "needs a file"),
        ("sqlite:////proc/nowhere/spanscore.db", "cannot be opened"),
        ("nosuchdb://host/name", "cannot be opened"),
    ],
)
def test_a_url_that_cannot_be_used_says_so(url, message):
    with pytest.raises(ConfigError, match=message):
        Store.open(Config(url=url))


def test_a_password_is_not_shown(tmp_path):
    with pytest.raises(ConfigError) as caught:
        Store.open(Config(url="nosuchdb://me:secret@host/name"))
    assert "secret" not in str(caught.value)


def test_only_the_owner_reads_the_store(tmp_path):
    store = Store.open(Config(url=f"sqlite:///{tmp_path / 'private' / 'spanscore.db'}"))
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "private").iterdir()}
    store.close()
    assert modes == {0o600}


def test_page_tokens_are_sealed_with_one_key_in_all_servers_on_a_store(database_url):
    first, second = Store.open(Config(url=database_url)), Store.open(Config(url=database_url))
    assert first.page_key == second.page_key
    for store in (first, second):
        store.close()


def test_another_store_seals_page_tokens_with_another_key(tmp_path):
    stores = [Store.open(Config(url=f"sqlite:///{tmp_path}/{x}.db")) for x in "ab"]
    assert stores[0].page_key != stores[1].page_key
    for store in stores:
        store.close()


def test_other_servers_can_use_a_store_in_postgresql(any_store, database_url):
    is_postgresql = database_url.startswith("postgresql")
    assert any_store.shared_url == (database_url if is_postgresql else None)
