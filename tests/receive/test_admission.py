"""Who gives way while memory is short."""

import pytest

from spanscore.errors import RetryableError
from spanscore.receive import exports as module
from spanscore.receive.exports import Admission

MIB = 2**20


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def admission(clock):
    return Admission(10 * MIB, clock_s=clock)


def arriving(admission, size_bytes=0):
    arrival = admission.arrive(lambda: None)
    arrival.grow(size_bytes)
    return arrival


def test_what_is_answered_takes_no_room(admission):
    for _ in range(100):
        arriving(admission, 10 * MIB).end()
    assert (admission.size_bytes, admission.is_idle) == (0, True)


def test_a_large_request_without_room_must_come_back(admission):
    arriving(admission, 9 * MIB)
    with pytest.raises(RetryableError) as caught:
        arriving(admission, 2 * MIB)
    assert (caught.value.why, admission.size_bytes) == ("memory", 9 * MIB)


def test_a_small_request_gets_the_room_of_a_larger_one_that_is_arriving(admission):
    half_sent = arriving(admission, 10 * MIB)
    arriving(admission, 1000)
    assert (half_sent.gave_way, admission.size_bytes) == (True, 1000)


def test_a_small_request_does_not_get_the_room_of_a_smaller_one(admission):
    others = [arriving(admission, MIB // 4) for _ in range(40)]
    with pytest.raises(RetryableError):
        arriving(admission, MIB // 2)
    assert not any(x.gave_way for x in others)


def test_a_request_that_takes_long_to_arrive_gives_way_to_any_other(admission, clock):
    slow = arriving(admission, 8 * MIB)
    clock.now_s = 6.0
    arriving(admission, 9 * MIB)
    assert slow.gave_way


def test_what_took_the_most_memory_for_the_longest_gives_way_first(admission, clock):
    long_but_little = arriving(admission, MIB)
    clock.now_s = 10.0
    much = arriving(admission, 8 * MIB)
    clock.now_s = 16.0
    arriving(admission, 2 * MIB)
    assert (much.gave_way, long_but_little.gave_way) == (True, False)


def test_a_complete_request_never_gives_way(admission, clock):
    complete = admission.arrive(lambda: None)
    complete.complete(10 * MIB)
    clock.now_s = 100.0
    with pytest.raises(RetryableError):
        arriving(admission, 1000)
    assert not complete.gave_way


def test_what_gave_way_gets_no_more_room(admission):
    half_sent = arriving(admission, 10 * MIB)
    arriving(admission, 1000)
    with pytest.raises(RetryableError):
        half_sent.grow(2000)


def test_of_too_many_the_one_that_takes_longest_gives_way(admission, monkeypatch):
    monkeypatch.setattr(module, "_MAX_ARRIVING", 3)
    told = []
    for number in range(4):
        admission.arrive(lambda number=number: told.append(number))
    assert (told, admission.arriving) == ([0], 3)
