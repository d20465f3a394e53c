"""A store that is down is waited for, and complained of once a minute."""

import asyncio
import logging

import pytest

from spanscore.errors import RetryableError
from spanscore.scoring import Scoring
from spanscore.telemetry import Meter


class FailingStore:
    """Answers after so many failures."""

    def __init__(self, failures):
        self.failures = failures

    def ask(self):
        if self.failures:
            self.failures -= 1
            raise RetryableError("disk full", retry_after_s=1.0)
        return "answer"


@pytest.fixture
def scoring():
    now_ns = [0]

    async def sleep(seconds):
        now_ns[0] += round(seconds * 10**9)

    return Scoring(None, None, None, Meter(), clock_ns=lambda: now_ns[0], sleep=sleep)


def test_the_store_is_waited_for(scoring):
    assert asyncio.run(scoring.patiently(FailingStore(3).ask)) == "answer"


def test_a_store_that_is_down_is_a_line_a_minute(scoring, caplog):
    asyncio.run(scoring.patiently(FailingStore(121).ask))
    assert caplog.messages == [
        "scoring waits for the store: disk full",
        "scoring waits for the store: disk full (60 times since the last line about it)",
        "scoring waits for the store: disk full (60 times since the last line about it)",
    ]


def test_that_it_answers_again_is_said_once(scoring, caplog):
    caplog.set_level(logging.INFO)
    asyncio.run(scoring.patiently(FailingStore(2).ask))
    asyncio.run(scoring.patiently(FailingStore(0).ask))
    assert caplog.messages[1:] == ["the store answers again"]
