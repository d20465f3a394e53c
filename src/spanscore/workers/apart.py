"""Work done in a process forked for it alone, so that whatever becomes of that the worker process
goes on.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from spanscore.workers.messages import Died, NotForked
from spanscore.workers.parent import die_with_parent

_FAILED = 70
"""The exit code of a process that has no answer; as `sysexits.h` has it for a fault within."""


def done_apart(
    work: Callable[[], bytes], limit_s: float, *, unneeded: int
) -> bytes | Died | NotForked:
    """What `work` gives in a process of its own, which the system ends after `limit_s` seconds.

    It closes the file descriptor `unneeded`. No other thread may have a lock that `work` needs.
    """
    try:
        reading, writing = os.pipe()
    except OSError as error:
        return NotForked(str(error))
    try:
        pid = os.fork()
    except OSError as error:  # such as too little memory, or too many processes
        os.close(reading)
        os.close(writing)
        return NotForked(str(error))
    if pid == 0:
        _work(work, limit_s, writing, close=(reading, unneeded))
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = answer.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        return Died(f"had not ended after {limit_s:g} s")
    return Died.with_code(code) if code else found


def _work(work: Callable[[], bytes], limit_s: float, writing: int, close: tuple[int, ...]) -> None:
    """Write what `work` gives, and end this process."""
    code = _FAILED
    with suppress(BaseException):
        for number in close:
            os.close(number)
        die_with_parent()
        # The system's own action, which C code that keeps Python's lock cannot put off.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        with os.fdopen(writing, "wb") as answer:
            answer.write(work())
        code = os.EX_OK
    sys.stderr.flush()
    os._exit(code)
