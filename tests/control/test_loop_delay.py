"""Runs wait while the event loop is late, since what comes in is scored in it too."""

import asyncio

import pytest

from spanscore.control.active_runs import LoopDelay


class Loop:
    """A clock on which each sleep takes as much longer as a test says; past the last one it is
    over.
    """

    def __init__(self, *late_s):
        self.now_s = 0.0
        self._late_s = list(late_s)

    def clock_s(self):
        return self.now_s

    async def sleep(self, seconds):
        if not self._late_s:
            raise asyncio.CancelledError
        self.now_s += seconds + self._late_s.pop(0)


@pytest.mark.parametrize(
    ("late_s", "is_long"),
    [
        ([], False),
        ([0.0, 0.001], False),
        ([0.2], True),
        ([0.2, 0.0, 0.0], True),  # it may be late again at once
        ([0.2, *[0.0] * 20], False),
    ],
)
def test_a_loop_that_was_late_just_now_is_late(late_s, is_long):
    loop = Loop(*late_s)
    delay = LoopDelay(loop.clock_s, loop.sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(delay.watch())
    assert delay.is_long is is_long


def test_a_loop_that_nobody_asks_about_is_not_woken():
    async def looks():
        sleeps = []

        async def sleep(seconds):
            sleeps.append(seconds)
            await asyncio.sleep(0)

        delay = LoopDelay(sleep=sleep)
        async with delay.watched(), delay.watched():
            await asyncio.sleep(0)
        begun = len(sleeps)
        for _ in range(5):
            await asyncio.sleep(0)
        return begun, len(sleeps)

    begun, later = asyncio.run(looks())
    assert begun == later > 0
