"""How long to wait before sending again."""

from spanscore.export.config import RetryOnFailure
from spanscore.export.delivery import MAX_REQUESTED_WAIT_S, Backoff

SECOND_NS = 10**9


def backoff(**settings):
    return Backoff.begin(RetryOnFailure.model_validate(settings), 0)


def test_waits_grow_up_to_the_longest():
    state, waits = backoff(initial_interval="1s", multiplier=2, max_interval="5s"), []
    for _ in range(5):
        waits.append(state.wait_s(None, 0.5, 0))
        state = state.next()
    assert waits == [1, 2, 4, 5, 5]


def test_a_wait_is_off_by_the_share_that_chance_says():
    state = backoff(initial_interval="10s", randomization_factor=0.5)
    assert [state.wait_s(None, chance, 0) for chance in (0.0, 0.5)] == [5.0, 10.0]


def test_what_the_backend_asks_for_comes_first():
    assert backoff(initial_interval="10s").wait_s(3.0, 0.9, 0) == 3.0


def test_a_backend_cannot_ask_for_a_day():
    assert backoff().wait_s(86400.0, 0.5, 0) == MAX_REQUESTED_WAIT_S


def test_it_never_gives_up_by_default():
    assert backoff().wait_s(None, 0.5, 10**6 * SECOND_NS) is not None


def test_it_gives_up_when_the_next_wait_would_be_too_late():
    state = backoff(initial_interval="1s", max_elapsed_time="10s")
    assert [state.wait_s(None, 0.5, now_s * SECOND_NS) is None for now_s in (8, 10)] == [
        False,
        True,
    ]


def faulty(state, *seconds):
    """The state after the backend answered with faults at these seconds."""
    for now_s in seconds:
        state = state.answered(fault=True, now_ns=now_s * SECOND_NS)
    return state


def test_faults_of_the_backend_are_given_up_after_their_time():
    state = faulty(backoff(initial_interval="1s", max_fault_time="10s"), 5, 8)
    assert [state.wait_s(None, 0.5, now_s * SECOND_NS) is None for now_s in (14, 15)] == [
        False,
        True,
    ]


def test_an_answer_of_another_kind_begins_the_time_of_faults_anew():
    state = faulty(backoff(initial_interval="1s", max_fault_time="10s"), 5).answered(
        fault=False, now_ns=8 * SECOND_NS
    )
    assert state.wait_s(None, 0.5, 10**6 * SECOND_NS) is not None
    assert faulty(state, 20).wait_s(None, 0.5, 29 * SECOND_NS) is not None


def test_switched_off_it_gives_up_at_once():
    assert backoff(enabled=False).wait_s(None, 0.5, 0) is None
