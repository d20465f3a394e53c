"""Work in a process of its own, which may end that one and nothing else."""

import os
import re
import signal

import pytest

from spanscore.worker_processes import NotForkedError, WorkerDiedError, done_apart

LONG_S = 300.0


def apart(work, limit_s=LONG_S):
    reading, unneeded = os.pipe()
    try:
        return done_apart(work, limit_s, unneeded=unneeded)
    finally:
        os.close(reading)
        os.close(unneeded)


@pytest.mark.parametrize("size", [0, 1, 10_000_000])
def test_what_the_work_gives_is_what_comes_of_it(size):
    assert apart(lambda: b"x" * size) == b"x" * size


def end(*_):
    os._exit(9)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise MemoryError


def regular_expression():
    re.match("(a+)+$", "a" * 64 + "b")  # keeps Python's lock for years


def test_work_that_ends_its_process_says_how():
    with pytest.raises(WorkerDiedError, match=r"^ended with 9$"):
        apart(end)


def test_work_that_is_killed_says_by_what():
    with pytest.raises(WorkerDiedError, match=r"^was killed by signal 9$"):
        apart(kill)


def test_an_error_ends_its_process_alone():
    with pytest.raises(WorkerDiedError):
        apart(fail)


def test_c_code_that_never_ends_is_ended_in_time():
    with pytest.raises(WorkerDiedError, match=r"^had not ended after 0\.05 s$"):
        apart(regular_expression, 0.05)


def test_without_memory_for_a_process_the_work_is_not_blamed(monkeypatch):
    def no(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", no)
    with pytest.raises(NotForkedError, match="Cannot allocate memory"):
        apart(end)


def test_without_file_descriptors_for_a_process_the_work_is_not_blamed(monkeypatch):
    def no(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", no)
    with pytest.raises(NotForkedError, match="Too many open files"):
        done_apart(end, LONG_S, unneeded=-1)


def test_a_process_that_could_not_be_started_leaves_no_file_open(monkeypatch):
    def no(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", no)
    before = next_descriptor()
    with pytest.raises(NotForkedError):
        done_apart(end, LONG_S, unneeded=-1)
    assert next_descriptor() == before


def next_descriptor():
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    return number
