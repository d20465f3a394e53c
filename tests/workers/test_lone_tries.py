"""A trace is tried by itself some time after a process died, so that another cause can pass."""

import asyncio

import pytest

from spanscore.workers.lone_tries import tried_alone
from spanscore.workers.pool import WorkerDiedError
from spanscore.workers.reading import KillsWorkersError


class Pressure:
    """Kills each process until so many seconds have passed; time passes by `sleep` alone."""

    def __init__(self, seconds):
        self.left_s = seconds

    async def sleep(self, seconds):
        self.left_s -= seconds

    async def ask(self):
        if self.left_s > 0:
            raise WorkerDiedError
        return "read"


def tried(seconds):
    pressure = Pressure(seconds)
    return asyncio.run(tried_alone(pressure.ask, pressure.sleep))


@pytest.mark.parametrize("seconds", [0, 1, 10])
def test_a_cause_that_passes_within_seconds_condemns_no_trace(seconds):
    assert tried(seconds) == "read"


def test_a_trace_on_which_a_process_dies_at_each_try_is_an_error():
    with pytest.raises(KillsWorkersError, match="3 worker processes died"):
        tried(60)
