"""A process that ends with the one that started it."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal that a process gets when its parent dies."""


def die_with_parent() -> None:
    """Have Linux kill this process when the one that started it dies, whatever it is doing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
