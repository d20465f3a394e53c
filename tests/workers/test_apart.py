"""Work in a process of its own, which may end that one and nothing else."""

import os
import re
import signal

import pytest

from spanscore.workers.messages import Died, NotForked
from spanscore.workers.process import done_apart

LONG_S = 300.0


def apart(work, limit_s=LONG_S):
    reading, unneeded = os.pipe()
    found = done_apart(work, limit_s, unneeded=unneeded)
    os.close(reading)
    os.close(unneeded)
    return found


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
    assert apart(end) == Died("ended with 9")


def test_work_that_is_killed_says_by_what():
    assert apart(kill) == Died("was killed by signal 9")


def test_an_error_ends_its_process_alone():
    assert isinstance(apart(fail), Died)


def test_c_code_that_never_ends_is_ended_in_time():
    assert apart(regular_expression, 0.05) == Died("had not ended after 0.05 s")


def test_without_memory_for_a_process_the_work_is_not_blamed(monkeypatch):
    def no(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", no)
    assert apart(end) == NotForked("[Errno 12] Cannot allocate memory")


def test_without_file_descriptors_for_a_process_the_work_is_not_blamed(monkeypatch):
    def no(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", no)
    assert done_apart(end, LONG_S, unneeded=-1) == NotForked("[Errno 24] Too many open files")


def test_a_process_that_could_not_be_started_leaves_no_file_open(monkeypatch):
    def no(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", no)
    before = next_descriptor()
    done_apart(end, LONG_S, unneeded=-1)
    assert next_descriptor() == before


def next_descriptor():
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    return number
