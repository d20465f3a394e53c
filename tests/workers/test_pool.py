"""A server's worker processes: what is said of them where they do not start or die."""

import os
import sqlite3
import threading

import pytest

from spanscore import worker_processes
from spanscore.telemetry import Config as Telemetry, Meter
from spanscore.worker_processes import WorkerDiedError
from spanscore.workers import WorkerPool
from spanscore.workers.answers import Setup


@pytest.fixture
def made(tmp_path):
    """Makes a pool of so many processes, and closes it."""
    pools = []

    def make(count=1, meter=None):
        setup = Setup(tmp_path / "journal.db", Telemetry(), frozenset(), (), frozenset())
        pools.append(WorkerPool(setup, count, meter or Meter(), lambda _: {}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def failed(made, monkeypatch):
    """A pool that could start no process."""
    tried_twice, tries = threading.Event(), []

    def refuse(_number):
        tries.append(None)
        if len(tries) > 1:
            tried_twice.set()
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(worker_processes, "_process", refuse)
    pool = made()
    pool.start()
    tried_twice.wait()
    return pool


def test_a_pool_whose_first_processes_are_being_started_has_no_notice(made):
    assert made(2).trouble is None


def test_the_notice_of_a_pool_that_can_start_no_process_has_the_reason(failed):
    assert "no worker process runs" in failed.trouble
    assert "Resource temporarily unavailable" in failed.trouble


def test_the_health_page_has_why_a_process_did_not_start(failed):
    (state,) = failed.health()
    assert state["state"] == "starting"
    assert "Resource temporarily unavailable" in state["fault"]


@pytest.mark.slow
def test_a_process_that_dies_is_counted(made, tmp_path):
    sqlite3.connect(tmp_path / "journal.db").close()
    meter = Meter()
    dying = made(meter=meter).submit(os._exit, 9)
    with pytest.raises(WorkerDiedError, match=r"^ended with 9$"):
        dying.result()
    assert meter.totals()["workers_ended"] == 1
