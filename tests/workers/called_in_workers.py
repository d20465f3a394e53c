"""Functions that tests have called in worker processes."""

import os
import signal
import threading
from pathlib import Path

from spanscore.errors import InputError


def refuse(message):
    raise InputError(message)


def print_and_give(item):
    print("something")  # noqa: T201 - that is what it is about
    return item


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_once(file):
    if not Path(file).exists():
        Path(file).touch()
        kill_itself()
    return "done"


def wait_for_ever():
    threading.Event().wait()


_remembered = []


def remember(item):
    _remembered.append(item)


def remembered():
    return _remembered
