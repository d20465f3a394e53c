"""Calls made in other processes: their results, their errors, and processes that die."""

import importlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from spanscore import worker_processes
from spanscore.errors import InputError
from spanscore.worker_processes import WorkerDiedError, WorkerPool

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
        WorkerDiedError, match=r"killed by SIGKILL\) while it worked on trace a1 in f\.jsonl"
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
    start = worker_processes._started

    def start_after_closing():
        is_starting.set()
        is_closed.wait()
        started.append(start())
        return started[0]

    monkeypatch.setattr(worker_processes, "_started", start_after_closing)
    monkeypatch.setattr(worker_processes, "_END_S", 0)
    waiting = pool.submit(calls.wait_for_ever, about="nothing")
    is_starting.wait()
    pool.close()
    is_closed.set()
    with pytest.raises(CancelledError):
        waiting.result(timeout=10)
    assert started[0].poll() is not None


def test_a_process_whose_results_nobody_reads_any_more_ends_without_a_word():
    command = [sys.executable, "-c", "from spanscore.worker_processes import serve; serve()"]
    messages = [pickle.dumps(x) for x in (sys.path, (abs, (-1,)))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        process.stdin.write(b"".join(struct.pack("!Q", len(x)) + x for x in messages))
        process.stdin.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)
