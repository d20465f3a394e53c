"""A program under measurement: what it and its children spend, as Linux counts it."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

_CPU_OF_PROCESS = 2
"""The clock of all threads of a process, as the kernel numbers the clocks of one:
CPUCLOCK_SCHED.
"""


class Child:
    """A running program; leaving the context ends it."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
            )
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def first_line(self) -> str:
        """The first line that the program prints. Raises RuntimeError when it ends without one."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise RuntimeError(f"the server ended at once:\n{self._log.read_text()}")
        return line.strip()

    def stop(self, timeout_s: float) -> None:
        """Ask it to end, as a supervisor would.

        Raises RuntimeError if it ends badly, TimeoutExpired if it does not.
        """
        self.process.terminate()
        if self.process.wait(timeout_s):
            self.check_alive()

    def check_alive(self) -> None:
        """Raise RuntimeError, with what the program has said, when it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(
                f"the server ended with {self.process.returncode}:\n{self._log.read_text()}"
            )

    def cpu_s(self) -> float:
        """Seconds of CPU, user and system, of the program and its children so far."""
        return sum(map(cpu_s, self._pids()))

    def peak_bytes(self) -> int:
        """The sum of each process's largest resident size so far."""
        return sum(_peak_bytes(pid) for pid in self._pids())

    def _pids(self) -> Iterator[int]:
        waiting = [self.process.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += [int(x) for x in children.read_text().split()]


def environment() -> dict[str, str]:
    """The environment of a measured program: its modules are compiled once, as where it is
    installed.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_s(pid: int) -> float:
    """By the clock of a process, of which Linux has the number in its id: /proc counts in
    hundredths of a second.
    """
    return time.clock_gettime(~pid << 3 | _CPU_OF_PROCESS)


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
