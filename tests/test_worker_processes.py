"""Calls made in other processes: their results, their errors, and processes that die."""

import importlib
import os
import signal
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

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
