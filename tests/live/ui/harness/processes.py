"""Processes that a run starts: each with its output in a file, and each ended by its id when the
run is over.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from spanscore.errors import SpanscoreError

_END_WITHIN_S = 15
_POLL_S = 0.1


class Processes:
    """The children of one run.

    As a context manager it ends those that still run, the last one first.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is where their output goes."""
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
    ) -> None:
        """Start `command`; all it writes goes to `NAME.log`.

        A name may be used again when its process has ended.
        """
        with self.log(name).open("ab") as output:
            # In a session of its own: Ctrl-C reaches only us, and whatever it starts itself is
            # ended with it.
            self._running[name] = subprocess.Popen(
                [str(x) for x in command],
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """The file with what the process wrote."""
        return self._folder / f"{name}.log"

    def pid(self, name: str) -> int:
        """The id of a running process."""
        return self._running[name].pid

    def wait(self, name: str, ready: Callable[[], bool], timeout_s: float = 400) -> None:
        """Wait until `ready` says True.

        Raises SpanscoreError with the last it wrote when it ends or takes too long.
        """
        deadline_s = time.monotonic() + timeout_s
        while not ready():
            code = self._running[name].poll()
            if code is not None or time.monotonic() > deadline_s:
                what = "was not ready in time" if code is None else f"ended with {code}"
                last = " | ".join(self.log(name).read_text(errors="replace").splitlines()[-5:])
                raise SpanscoreError(f"{name} {what}; all it wrote is in {self.log(name)}: {last}")
            time.sleep(_POLL_S)

    def kill(self, name: str) -> None:
        """End it at once, as a crash does."""
        self._signal(name, signal.SIGKILL)
        self._running.pop(name).wait()

    def end(self, name: str) -> None:
        """Ask it to end, and make it end when it does not."""
        self._signal(name, signal.SIGTERM)
        child = self._running.pop(name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_WITHIN_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # and what it left behind
        child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in reversed([*self._running]):
            self.end(name)

    def _signal(self, name: str, which: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running[name].pid, which)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nothing listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


def answers(url: str) -> bool:
    """Whether a GET of `url` is answered 200."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return answer.status == 200
    return False
