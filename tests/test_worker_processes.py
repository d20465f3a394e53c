"""Calls made in other processes: their results, their errors, and processes that die."""

import importlib
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from spanscore import worker_processes
from spanscore.errors import InputError
from spanscore.worker_processes import WorkerDiedError, WorkerPool, apart

FOLDER = Path(__file__).parent / "workers"


@pytest.fixture
def calls(monkeypatch):
    """Functions in a module that workers can import as well."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("called_in_workers")


@pytest.fixture
def pool(calls):
    with WorkerPool(2) as made:
        yield made


def test_calls_give_what_their_functions_give(calls, pool):
    results = [pool.submit(pow, number, 2, about="a number") for number in range(20)]
    assert [x.result() for x in results] == [number**2 for number in range(20)]


def test_calls_are_made_in_other_processes(calls, pool):
    assert pool.submit(os.getpid, about="nothing").result() != os.getpid()


def test_the_error_of_a_function_is_raised_where_its_result_is_asked_for(calls, pool):
    with pytest.raises(InputError, match=r"traces\.pb: damaged"):
        pool.submit(calls.refuse, "traces.pb: damaged", about="a file").result()


def test_what_a_function_prints_is_no_result(calls, pool):
    assert pool.submit(calls.print_and_give, 7, about="a number").result() == 7


def test_a_call_whose_process_is_killed_is_made_again_in_another(calls, pool, tmp_path):
    file = tmp_path / "killed"
    assert pool.submit(calls.kill_itself_once, str(file), about="a trace").result() == "done"


def test_a_call_that_kills_each_process_is_an_error_that_names_what_it_was_about(calls, pool):
    with pytest.raises(
        WorkerDiedError, match=r"killed by signal 9 while it worked on trace a1 in f\.jsonl"
    ):
        pool.submit(calls.kill_itself, about="trace a1 in f.jsonl").result()


@pytest.mark.slow
def test_other_calls_are_made_after_one_that_killed_its_processes(calls, pool):
    pool.submit(calls.kill_itself, about="a trace").exception()
    assert [pool.submit(abs, -1, about="a number").result() for _ in range(4)] == [1, 1, 1, 1]


def test_ctrl_c_in_the_terminal_does_not_reach_the_processes(calls, pool):
    assert pool.submit(os.getpgrp, about="nothing").result() != os.getpgrp()


def test_closing_ends_the_processes_whatever_they_do(calls, pool):
    waiting = pool.submit(calls.wait_for_ever, about="nothing")
    other = pool.submit(os.getpid, about="nothing").result()
    pool.close()
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(ProcessLookupError):
        os.kill(other, signal.SIGCONT)


def test_nothing_is_called_after_closing(calls, pool):
    pool.close()
    assert pool.submit(abs, -1, about="a number").cancelled()


def test_a_process_that_was_about_to_start_at_closing_is_ended(calls, pool, monkeypatch):
    started, is_starting, is_closed = [], threading.Event(), threading.Event()
    start = worker_processes._process

    def start_after_closing(number):
        is_starting.set()
        is_closed.wait()
        started.append(start(number))
        return started[-1]

    monkeypatch.setattr(worker_processes, "_process", start_after_closing)
    monkeypatch.setattr(worker_processes, "_END_S", 0)
    waiting = pool.submit(calls.wait_for_ever)
    is_starting.wait()
    pool.close()
    is_closed.set()
    with pytest.raises(CancelledError):
        waiting.result(timeout=10)
    for thread in pool._threads:
        thread.join(10)
    assert all(process.poll() is not None for process in started)


def test_a_process_whose_results_nobody_reads_any_more_ends_without_a_word():
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    command = f"from spanscore.worker_processes import serve; serve({number})"
    messages = [pickle.dumps(x) for x in (None, (abs, (-1,)))]
    with (
        theirs,
        subprocess.Popen(
            [sys.executable, "-c", command], pass_fds=(number,), stderr=subprocess.PIPE
        ) as process,
    ):
        ours.sendall(b"".join(struct.pack("<Q", len(x)) + x for x in messages))
        ours.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_call_that_cannot_be_sent_is_an_error_of_its_own(pool):
    with pytest.raises(Exception, match="pickle"):
        pool.submit(lambda: None).result()
    assert pool.submit(abs, -1).result() == 1


def test_a_process_that_takes_too_long_for_a_call_is_killed(calls):
    with WorkerPool(1, limit_s=0.2) as pool:
        with pytest.raises(WorkerDiedError, match=r"^had not ended after 0\.2 s$"):
            pool.submit(calls.wait_for_ever).result()
        assert pool.submit(abs, -1, limit_s=60.0).result() == 1


def test_no_call_waits_behind_one_that_takes_long(calls, pool):
    pool.submit(calls.wait_for_ever)
    assert [pool.submit(abs, -number).result() for number in range(20)] == [*range(20)]


def test_each_process_is_set_up_before_its_first_call(calls):
    with WorkerPool(1, (calls.remember, ("this",))) as pool:
        assert pool.submit(calls.remembered).result() == ["this"]


def test_what_is_called_apart_costs_the_process_nothing(calls):
    with WorkerPool(1, (calls.remember, ("this",))) as pool:
        first = pool.submit(os.getpid).result()
        with pytest.raises(WorkerDiedError, match=r"^was killed by signal 9$"):
            pool.submit(apart, calls.kill_itself, (), 60.0).result()
        found = pool.submit(apart, calls.remembered, (), 60.0).result()
        assert found[-1] == "this"
        assert pool.submit(os.getpid).result() == first


@pytest.fixture
def waits(monkeypatch):
    """The seconds that a pool waits before it starts a process, which pass at once."""
    found = []

    class Closed(threading.Event):
        def wait(self, timeout=None):
            found.append(timeout)
            return super().wait(0)

    def made():
        pool = WorkerPool(1)
        pool._is_closed = Closed()
        return pool

    return found, made


def test_each_process_that_dies_with_its_first_call_waits_longer(calls, waits):
    found, made = waits
    with made() as pool:
        for _ in range(4):
            assert isinstance(pool.submit(calls.kill_itself).exception(), WorkerDiedError)
    assert found[:3] == [0.2, 0.4, 0.8]


def test_a_process_that_answered_before_it_died_is_started_again_soon(calls, waits):
    found, made = waits
    with made() as pool:
        for _ in range(3):
            pool.submit(abs, -1).result()
            pool.submit(calls.kill_itself).exception()
        assert set(found) == {0.1}


def test_where_no_process_starts_a_call_fails(monkeypatch):
    def refuse(_number):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(worker_processes, "_process", refuse)
    with WorkerPool(1) as pool, pytest.raises(WorkerDiedError, match=r"did not start: .*unavail"):
        pool.submit(abs, -1).result()
