"""No batch waits behind a slow one, and none is lost."""

import asyncio

import pytest

from spanscore.workers.messages import Alone
from spanscore.workers.pool import LIMIT_S, Place, Sent, to_move

SOON_S, LATER_S = 0.5, 1.5
RUNNING = object()


@pytest.fixture(autouse=True)
def loop():
    """One for the futures, which nobody waits for here."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def batches(loop):
    return [Sent(None, loop.create_future()) for _ in range(3)]


def place(*sent):
    """The place of a process that got batches at second 0."""
    made = Place(RUNNING)
    for one in sent:
        made.give(one, 0.0)
    return made


def test_a_batch_behind_a_slow_one_is_given_to_an_idle_process(batches):
    assert list(to_move([place(*batches[:2]), place()], LATER_S)) == [batches[1]]


def test_a_batch_behind_one_that_is_new_waits_for_it(batches):
    assert list(to_move([place(*batches[:2]), place()], SOON_S)) == []


def test_a_batch_behind_a_slow_one_is_the_next_to_be_given_away_while_all_processes_work(batches):
    assert list(to_move([place(*batches[:2]), place(batches[2])], LATER_S)) == [batches[1]]


def test_a_process_that_is_slow_gets_no_second_batch(batches):
    assert place(batches[0]).is_engaged(LATER_S)


def test_a_process_that_works_on_something_alone_gets_no_second_batch(batches):
    batches[0].message = Alone(None, 10.0)
    assert place(batches[0]).is_engaged(SOON_S)


@pytest.mark.parametrize("count", [0, 1])
def test_a_process_that_is_not_slow_gets_a_second_batch(batches, count):
    assert not place(*batches[:count]).is_engaged(SOON_S)


def test_a_batch_is_given_to_a_second_process_once(batches):
    places = [place(*batches[:2]), place()]
    list(to_move(places, LATER_S))
    assert list(to_move(places, LATER_S)) == []


def test_all_that_waits_behind_slow_batches_is_given_away(batches):
    slow = [place(*batches[:2]), place(batches[2], batches[0])]
    assert list(to_move(slow, LATER_S)) == [batches[1], batches[0]]


def test_the_time_of_a_batch_begins_when_the_one_before_it_is_answered(batches):
    slow = place(*batches[:2])
    slow.take_answered(LATER_S)
    assert not slow.is_slow(LATER_S + SOON_S)


def test_what_a_dead_process_had_not_begun_is_given_back(batches):
    assert place(*batches).take_back() == (batches[0], batches[1:])


def test_what_another_process_has_as_well_is_not_given_back(batches):
    slow = place(*batches[:2])
    list(to_move([slow, place()], LATER_S))
    assert slow.take_back() == (batches[0], [])


def test_what_two_processes_had_that_died_is_given_back_once(batches):
    slow = place(*batches[:2])
    list(to_move([slow, other := place()], LATER_S))
    other.give(batches[2], LATER_S)
    other.give(batches[1], LATER_S)
    assert [*slow.take_back()[1], *other.take_back()[1]] == [batches[1]]


def test_a_batch_is_overdue_after_its_limit(batches):
    assert place(batches[0]).is_overdue(LIMIT_S + 1)
    assert not place(batches[0]).is_overdue(LIMIT_S - 1)
    assert not place().is_overdue(LIMIT_S + 1)
