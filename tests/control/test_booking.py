"""What is booked is stored before a call is made; calls that wait together share one write."""

import asyncio

import pytest

from spanscore.control.measurer import Booking
from spanscore.judge.budget import Need, Purse, TotalBudget
from spanscore.judge.config import Budget

NEED = Need(input_tokens=100, least_output=10, most_output=50)


class Writes:
    """Counts writes, each of which ends when the gate is open."""

    def __init__(self):
        self.count = 0
        self.gate = asyncio.Event()

    async def __call__(self):
        self.count += 1
        await self.gate.wait()


async def all_started():
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_those_who_come_while_a_write_is_under_way_share_the_next_one():
    async def scenario():
        write = Writes()
        booking = Booking(write)
        waiting = [asyncio.create_task(booking.keep())]
        await all_started()
        waiting += [asyncio.create_task(booking.keep()) for _ in range(5)]
        await all_started()
        write.gate.set()
        await asyncio.gather(*waiting)
        return write.count

    assert asyncio.run(scenario()) == 2


def test_a_call_that_is_given_up_before_it_was_stored_costs_nothing():
    async def scenario():
        budget = TotalBudget(Budget(max_tokens=1000))
        purse = Purse(budget, lambda: 0, Writes())
        reserving = asyncio.create_task(purse.reserve(lambda: NEED))
        await all_started()
        booked = budget.booked
        reserving.cancel()
        await asyncio.wait([reserving])
        return booked, budget.booked

    assert asyncio.run(scenario()) == ((150, 0.0), (0, 0.0))


def test_a_write_that_fails_frees_what_was_reserved():
    async def fails():
        raise OSError("the disk is gone")

    budget = TotalBudget(Budget(max_tokens=1000))
    purse = Purse(budget, lambda: 0, fails)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(purse.reserve(lambda: NEED))
    assert budget.booked == (0, 0.0)
