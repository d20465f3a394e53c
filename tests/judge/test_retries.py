"""Which faults are tried again, and after how long."""

import pytest

from spanscore.judge.calls import may_pass, wait_s
from spanscore.judge.config import Config
from spanscore.judge.provider import CallError

BACKOFF = {"initial_interval": "1s", "max_interval": "5s", "max_elapsed_time": "100s"}
CONFIG = Config.model_validate({"max_retries": 3, "backoff": BACKOFF})


def wait(error, tried=1, elapsed_s=0.0, chance=1.0):
    return wait_s(error, tried, elapsed_s, 0, CONFIG, chance)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529, None])
def test_a_status_that_may_pass(status):
    assert may_pass(CallError("x", status=status))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_status_that_will_not_pass(status):
    assert not may_pass(CallError("x", status=status))


def test_a_time_out_may_pass():
    assert may_pass(CallError("x", status=400, timed_out=True))


def test_the_wait_doubles_up_to_its_bound():
    assert [wait(CallError("x", status=500), tried) for tried in (1, 2, 3)] == [1, 2, 4]


def test_the_wait_is_bounded():
    config = CONFIG.model_copy(update={"max_retries": 100})

    assert wait_s(CallError("x", status=500), 90, 0.0, 0, config, 1.0) == 5


def test_half_of_the_wait_is_random():
    assert (
        wait(CallError("x", status=500), chance=0.0),
        wait(CallError("x", status=500), chance=0.5),
    ) == (0.5, 0.75)


def test_retry_after_is_not_undercut():
    assert wait(CallError("x", status=429, headers={"retry-after": "9"})) == 9


def test_a_short_retry_after_does_not_shorten_the_backoff():
    assert wait(CallError("x", status=429, headers={"retry-after": "0"})) == 1


def test_no_retry_is_left_after_the_last():
    assert wait(CallError("x", status=500), tried=4) is None


def test_a_wait_that_ends_past_the_bound_is_given_up():
    assert wait(CallError("x", status=429, headers={"retry-after": "50"}), elapsed_s=60) is None
