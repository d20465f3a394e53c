"""When a session has fallen quiet."""

from spanscore.assemble.assembler import Sessions
from spanscore.assemble.config import Config

SECOND = 10**9
CONFIG = Config(session_idle_after="60s")


def test_a_session_is_cut_when_quiet():
    sessions = Sessions(CONFIG)
    sessions.push("s", 0)
    assert sessions.cut(59 * SECOND) == []
    assert sessions.cut(60 * SECOND) == ["s"]


def test_a_session_that_goes_on_is_cut_again():
    sessions = Sessions(CONFIG)
    sessions.push("s", 0)
    sessions.cut(60 * SECOND)
    sessions.push("s", 70 * SECOND)
    assert sessions.cut(130 * SECOND) == ["s"]


def test_another_trace_keeps_a_session_open():
    sessions = Sessions(CONFIG)
    sessions.push("s", 0)
    sessions.push("s", 30 * SECOND)
    assert sessions.cut(60 * SECOND) == []


def test_above_the_number_of_open_sessions_the_quietest_is_cut():
    sessions = Sessions(Config(max_open_sessions=1))
    sessions.push("old", 0)
    sessions.push("new", 1)
    assert sessions.cut(1) == ["old"]
