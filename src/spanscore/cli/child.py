"""The program that `spanscore run` starts: its environment, its signals, its exit code."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence

from spanscore.errors import InputError

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_SIGNALS = ("TRACES", "LOGS", "METRICS")
_OF_BACKENDS = (
    "ENDPOINT",
    "PROTOCOL",
    "HEADERS",
    "CERTIFICATE",
    "CLIENT_KEY",
    "CLIENT_CERTIFICATE",
    "INSECURE",
)
_USUAL = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_BSP_SCHEDULE_DELAY": "500",
    "OTEL_BLRP_SCHEDULE_DELAY": "500",
    "OTEL_METRICS_EXPORTER": "none",
}
"""What holds unless the environment says otherwise: nothing is evaluated from metrics."""
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class ProgramError(InputError):
    """The program could not be started; `code` is the exit code that a shell has for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def environment(environ: Mapping[str, str], endpoint: str, *, with_content: bool) -> dict[str, str]:
    """The variables of the program, so that its exporters send to `endpoint`, which takes gRPC and
    HTTP.

    What names another backend is left out, for all signals and for one. `with_content`: where
    nothing says whether instrumentations record messages, they are asked to.
    """
    parts = ("", *(f"{x}_" for x in _OF_SIGNALS))
    elsewhere = {f"OTEL_EXPORTER_OTLP_{part}{name}" for part in parts for name in _OF_BACKENDS}
    elsewhere -= {"OTEL_EXPORTER_OTLP_PROTOCOL"}
    found = {name: value for name, value in environ.items() if name not in elsewhere}
    usual = {**_USUAL, _CONTENT: "true"} if with_content else _USUAL
    return {
        **usual,
        **found,
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_SDK_DISABLED": "false",
    }


async def run(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program with our standard streams, and pass signals on to it.

    Returns its exit code, for one that a signal ended 128 and the signal's number. Raises
    ProgramError.
    """
    with _passing_on() as passing:
        try:
            process = await asyncio.create_subprocess_exec(*command, env=dict(env))
        except FileNotFoundError:
            message = f"{command[0]}: no such program; what follows `--` is run as it is"
            raise ProgramError(message, _NOT_FOUND) from None
        except OSError as error:
            raise ProgramError(
                f"{command[0]}: cannot be run ({error.strerror})", _NOT_EXECUTABLE
            ) from None
        passing.to(process)
        code = await process.wait()
    return 128 - code if code < 0 else code


class _Passing:
    """Has signals that are sent to us reach a program, which decides when both end.

    What comes before there is a program reaches it as soon as there is one.
    """

    def __init__(self) -> None:
        self._program: asyncio.subprocess.Process | None = None
        self._early: list[int] = []

    def to(self, program: asyncio.subprocess.Process) -> None:
        """Pass signals on to this program."""
        self._program = program
        for number in self._early:
            self.send(number)

    def send(self, number: int) -> None:
        """Pass one signal on."""
        if number == signal.SIGINT and _is_in_foreground():
            return  # the terminal has sent it to the program as well
        if self._program is None:
            self._early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            self._program.send_signal(number)


@contextlib.contextmanager
def _passing_on() -> Iterator[_Passing]:
    """Within the block, signals are passed on and end nothing here."""
    loop, passing = asyncio.get_running_loop(), _Passing()
    numbers = (signal.SIGINT, *_PASSED_ON)
    for number in numbers:
        loop.add_signal_handler(number, passing.send, number)
    try:
        yield passing
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _is_in_foreground() -> bool:
    """Whether a terminal sends what is typed there to our process group, of which the program
    is.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False
