"""An exception becomes an outcome, and is logged, but not once for every trace."""

import pytest

from spanscore.evaluation import outcomes as attempt
from spanscore.evaluation.outcomes import Attempt
from spanscore.telemetry.logs import Complaints


class Clock:
    """Unix nanoseconds that a test sets."""

    now_ns = 10**18

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(attempt, "_COMPLAINTS", Complaints(made))
    return made


def fail(error=ConnectionError):
    with Attempt("asking for coherence") as made:
        raise error("down")
    return made.outcome


def test_an_error_that_lasts_is_logged_with_its_traceback_once_a_minute(clock, caplog):
    outcomes = [fail() for _ in range(1000)]
    assert {x.type for x in outcomes} == {"ConnectionError"}
    [record] = caplog.records
    assert "asking for coherence raised ConnectionError" in record.message
    assert record.exc_info[0] is ConnectionError
    clock.now_ns += 61 * 10**9
    fail()
    assert "1000 times" in caplog.records[1].message


def test_an_error_of_another_line_is_logged_by_itself(clock, caplog):
    fail()
    with Attempt("asking for confidence"):
        raise ConnectionError("down")
    assert [x.message.partition(": ")[2] for x in caplog.records] == [
        "asking for coherence raised ConnectionError",
        "asking for confidence raised ConnectionError",
    ]
