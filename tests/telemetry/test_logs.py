"""A log line says what happened, about which trace, a bounded number of times, and nothing of what
users wrote.
"""

import asyncio
import io
import json
import logging
import sys

import pytest

from spanscore.errors import RetryableError
from spanscore.telemetry import Complaints, Config, about, configure_logging
from spanscore.telemetry.config import Sampling
from spanscore.telemetry.logs import Repetition

LOG = logging.getLogger("spanscore.tested")
MINUTE_NS = 60 * 10**9


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def logged(monkeypatch):
    """Configures logging to a stream, as `serve` does; call it to get the lines so far."""

    def configure(stream=None, **config):
        stream = stream or io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        configure_logging(Config.model_validate(config))
        return lambda: stream.getvalue().splitlines()

    return configure


def fail(error):
    try:
        raise error
    except type(error):
        LOG.exception("it failed")


def test_without_a_terminal_a_line_is_a_json_object(logged):
    lines = logged(resource={"service.instance.id": "1"})
    LOG.warning("too %s", "late")
    shown = json.loads(lines()[0])
    assert (shown["level"], shown["logger"], shown["msg"]) == (
        "warn",
        "spanscore.tested",
        "too late",
    )
    assert (shown["resource"]["service.name"], shown["resource"]["service.instance.id"]) == (
        "spanscore",
        "1",
    )


def test_on_a_terminal_a_line_is_text(logged):
    lines = logged(Terminal())
    LOG.warning("too late")
    assert lines()[0].split("\t")[1:] == ["WARNING", "spanscore.tested", "too late"]


@pytest.mark.parametrize(("encoding", "first"), [("json", "{"), ("console", "2")])
def test_the_encoding_can_be_chosen(logged, encoding, first):
    for stream in (io.StringIO(), Terminal()):
        lines = logged(stream, logs={"encoding": encoding})
        LOG.warning("too late")
        assert lines()[0].startswith(first)


def test_what_a_line_is_about_is_a_field(logged):
    lines = logged()
    LOG.warning("late", extra={"trace_id": "0a" * 16, "span_id": "0b" * 8})
    shown = json.loads(lines()[0])
    assert (shown["trace_id"], shown["span_id"]) == ("0a" * 16, "0b" * 8)


def test_what_a_line_is_about_is_on_a_terminal_too(logged):
    lines = logged(Terminal())
    LOG.warning("late", extra={"trace_id": "0a" * 16})
    assert lines()[0].endswith('\t{"trace_id":"' + "0a" * 16 + '"}')


def test_a_line_logged_while_a_trace_is_worked_on_has_its_id(logged):
    lines = logged()
    with about(trace_id="0a" * 16):
        asyncio.run(asyncio.to_thread(LOG.warning, "the judge is slow"))
    assert json.loads(lines()[0])["trace_id"] == "0a" * 16


def test_a_line_logged_afterwards_has_not(logged):
    lines = logged()
    with about(trace_id="0a" * 16):
        pass
    LOG.warning("the judge is slow")
    assert "trace_id" not in json.loads(lines()[0])


def test_the_level_holds(logged):
    lines = logged(logs={"level": "warn"})
    LOG.info("started")
    assert lines() == []


def test_other_libraries_are_heard_from_warnings_up(logged):
    lines = logged(logs={"level": "debug"})
    logging.getLogger("aiohttp").info("hello")
    assert lines() == []


def test_the_same_fault_is_logged_ten_times_a_minute(logged):
    lines = logged()
    for number in range(1000):
        LOG.warning("request %d failed", number)
    assert len(lines()) == 10


def test_each_fault_has_ten_lines_of_its_own(logged):
    lines = logged()
    for number in range(1000):
        LOG.warning("request %d failed", number)
        LOG.error("trace %d failed", number)
    assert len(lines()) == 20


def test_what_is_no_fault_is_logged_each_time(logged):
    lines = logged()
    for number in range(100):
        LOG.info("port %d", number)
    assert len(lines()) == 100


def test_complaints_about_different_things_are_different_faults(logged):
    lines = logged()
    complaints = Complaints(lambda: 0)
    for number in range(100):
        complaints.complain(f"exporter {number}", "down")
    assert len(lines()) == 100


def said(sampling, times_ns):
    """Which of some equal lines are logged, and how many each says were left out."""
    clock = iter(times_ns)
    repetition = Repetition(sampling, lambda: next(clock))
    records = [logging.LogRecord("a", logging.ERROR, "", 1, "down", (), None) for _ in times_ns]
    return [
        (passes, getattr(x, "unsaid", 0)) for x in records for passes in (repetition.filter(x),)
    ]


def test_after_a_while_it_is_logged_again_with_how_many_were_not():
    found = said(Sampling(initial=1), [0, 1, 2, MINUTE_NS, MINUTE_NS + 1])
    assert found == [(True, 0), (False, 0), (False, 0), (True, 2), (False, 0)]


def test_each_so_many_can_be_logged():
    found = said(Sampling(initial=1, thereafter=2), range(5))
    assert found == [(True, 0), (False, 0), (True, 1), (False, 0), (True, 1)]


def test_without_sampling_all_is_logged():
    assert said(Sampling(enabled=False, initial=1), range(3)) == [(True, 0)] * 3


def test_what_is_remembered_of_faults_is_bounded():
    repetition = Repetition(Sampling())
    for number in range(5000):
        repetition.filter(logging.LogRecord("a", logging.ERROR, "", 1, f"fault {number}", (), None))
    assert len(repetition._seen) == 1000


def test_the_line_says_how_many_like_it_were_left_out(logged):
    lines = logged(logs={"sampling": {"initial": 1, "thereafter": 3}})
    for _ in range(4):
        LOG.warning("down")
    assert json.loads(lines()[1])["msg"] == "down (2 like it were not logged)"


def test_a_strange_error_is_named_and_not_quoted(logged):
    lines = logged()
    fail(ValueError("the user's own words"))
    shown = json.loads(lines()[0])
    assert "the user's own words" not in lines()[0]
    assert shown["stacktrace"].endswith("ValueError")
    assert "in fail" in shown["stacktrace"]


def test_an_error_of_our_own_is_quoted(logged):
    lines = logged()
    fail(RetryableError("the journal is full"))
    assert json.loads(lines()[0])["stacktrace"].endswith("RetryableError: the journal is full")


def test_what_an_error_came_from_is_named_and_not_quoted(logged):
    lines, error = logged(), RetryableError("later")
    error.__cause__ = KeyError("the user's own words")
    fail(error)
    assert "KeyError" in json.loads(lines()[0])["stacktrace"]
    assert "the user's own words" not in lines()[0]


def test_a_field_of_any_length_is_cut(logged):
    lines = logged()
    LOG.warning("late", extra={"session_id": "s" * 10_000})
    assert len(json.loads(lines()[0])["session_id"]) == 128
