"""Retention: what is older, and what is too much, goes."""

import pytest

SECOND_NS = 10**9


def fill(store, make, clock, count, size=1000):
    """Commit traces with one score each, one a second; returns them."""
    traces = []
    for number in range(1, count + 1):
        clock.now_ns += SECOND_NS
        traces.append(make.trace(number, user_input="x" * size))
        store.commit([make.stored(traces[-1])], [make.score(traces[-1])])
    return traces


@pytest.mark.slow
def test_what_is_older_than_its_age_goes(open_store, make, clock):
    store = open_store(max_age="10s")
    traces = fill(store, make, clock, 5)
    pruned = store.prune(clock.now_ns + 8 * SECOND_NS)
    assert (pruned, [store.trace(t.id) is None for t in traces]) == (
        2,
        [True, True, False, False, False],
    )


def test_the_scores_go_with_their_traces(open_store, make, clock):
    store = open_store(max_age="10s")
    fill(store, make, clock, 5)
    store.prune(clock.now_ns + 8 * SECOND_NS)
    assert [seq for seq, _ in store.outbox(0, 10)] == [3, 4, 5]


def test_otel_trace_ids_go_with_their_traces(open_store, make, clock):
    store = open_store(max_age="1s")
    (trace,) = fill(store, make, clock, 1)
    store.prune(clock.now_ns + 8 * SECOND_NS)
    store.commit([make.stored(trace)], [])
    assert store.trace(trace.trace_ids[0]) == trace


def test_what_a_session_id_stands_for_goes_with_the_last_trace_of_the_session(
    open_store, make, clock
):
    store = open_store(max_age="10s")
    for number, key in ((1, "a:s"), (2, "b:s"), (3, "a:s")):
        clock.now_ns += 5 * SECOND_NS
        store.commit([make.stored(make.trace(number, session_id="s", session_key=key))], [])
    store.prune(clock.now_ns + 8 * SECOND_NS)
    assert store.session_keys("s") == ["a:s"]


def test_a_judges_answers_go_at_their_age(open_store, clock):
    store = open_store(max_age="1s")
    store.put({"key": "value"})
    store.prune(clock.now_ns + 8 * SECOND_NS)
    assert store.get(["key"]) == {}


def test_nothing_goes_by_age_when_age_has_no_bound(open_store, make, clock):
    store = open_store(max_age=None)
    fill(store, make, clock, 3)
    assert store.prune(clock.now_ns + 10**18) == 0


@pytest.mark.slow
def test_too_many_bytes_push_out_the_oldest(open_store, make, clock):
    store = open_store(max_bytes=1_000_000)
    traces = fill(store, make, clock, 1100)
    pruned = store.prune(clock.now_ns)
    assert (
        pruned > 0,
        store.size_bytes <= 1_000_000,
        store.trace(traces[0].id),
        store.trace(traces[-1].id),
    ) == (True, True, None, traces[-1])


def test_nothing_goes_while_there_is_room(open_store, make, clock):
    store = open_store(max_bytes="1MiB")
    fill(store, make, clock, 3)
    assert store.prune(clock.now_ns) == 0


def test_the_size_is_the_same_after_a_restart(open_store, make, clock):
    store = open_store(max_age="10s")
    traces = fill(store, make, clock, 5)
    store.commit([make.stored(traces[-1], 2)], [])
    store.put({"key": "value"})
    store.put({"key": "longer value"})
    store.prune(clock.now_ns + 8 * SECOND_NS)
    assert open_store().size_bytes == store.size_bytes > 0


def test_size_is_counted_in_bytes_and_not_in_characters(open_store, make):
    def grown(text):
        before = store.size_bytes
        store.commit([make.stored(make.trace(grown.calls, user_input=text))], [])
        store.put({f"key {grown.calls}": text})
        grown.calls += 1
        return store.size_bytes - before

    grown.calls, store = 1, open_store()
    assert grown("東" * 1000) - grown("x" * 1000) == 2 * 2000
