"""What goes wrong at every attempt is told, and not at every attempt."""

import pytest

from spanscore.telemetry import Complaints

MINUTE_NS = 60 * 10**9


@pytest.fixture
def clock():
    return [0]


@pytest.fixture
def complaints(clock):
    return Complaints(lambda: clock[0])


def test_a_complaint_is_said_when_it_begins(complaints, caplog):
    complaints.complain("store", "down")
    assert caplog.messages == ["store: down"]


def test_within_a_minute_it_is_not_said_again(complaints, clock, caplog):
    complaints.complain("store", "down")
    clock[0] = MINUTE_NS - 1
    complaints.complain("store", "down")
    assert len(caplog.messages) == 1


def test_after_a_minute_it_is_said_with_how_often(complaints, clock, caplog):
    for clock[0] in (0, 1, 2, MINUTE_NS):
        complaints.complain("store", "down")
    assert caplog.messages[1:] == ["store: down (3 times since the last line about it)"]


def test_each_subject_is_said(complaints, caplog):
    complaints.complain("store", "down")
    complaints.complain("backend", "down")
    assert len(caplog.messages) == 2


def test_it_is_over_once(complaints):
    complaints.complain("store", "down")
    assert [complaints.is_over("store"), complaints.is_over("store")] == [True, False]
