"""Standard output and standard error while a command runs: closed ones, full ones, and those that
nobody reads.
"""

import contextlib
import io
import os
import sys


def prepare() -> None:
    """Let what is printed not fail for its characters, nor since a stream was closed before we
    began.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # as after `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            # a terminal that is not UTF-8 shows escapes
            stream.reconfigure(errors="backslashreplace")


def let_go() -> None:
    """Print nowhere from now on: else Python complains once more at its exit, about what it could
    not write.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):  # a stream that is no file, as in a test
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
