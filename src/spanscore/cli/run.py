"""`spanscore run -- PROGRAM`: score what one program emits."""

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from spanscore.cli import measurement, one_run, score_summary, terminal
from spanscore.cli.one_run import Backend, OneRun, ServerEndedError, Signal, exporters, settings_for
from spanscore.cli.options import add_judge, argument
from spanscore.cli.terminal import console, say
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.evaluation.procedure import narrowed
from spanscore.export.config import Config as Export
from spanscore.offline import metric_names
from spanscore.offline.summary import RunSummary
from spanscore.temporary_files import kept_folder

_NOTHING_CAME = (
    "no agent trace came from the program. Is it instrumented, and does it end its spans?"
    " OTEL_EXPORTER_OTLP_ENDPOINT is set for it, which an exporter with an endpoint in the"
    " program's own code does not read. A Python program may need `spanscore run --"
    " opentelemetry-instrument python ...`, with the instrumentation of its framework installed"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "program PROGRAM", "what is run, after `--`", nargs=argparse.REMAINDER)
    add_judge(parser)
    argument(parser, "--metric NAME", "measure only this metric", repeated=True)
    argument(parser, "--failing", "show only what does not pass or was not measured")
    argument(parser, "--output FILE", "write the scores there, one JSON object a line")
    argument(parser, "--keep FOLDER", "keep the store there, for `spanscore scores --store`")


def run(args: argparse.Namespace) -> int:
    """Run the program, then show its scores on standard error. Returns the program's exit code."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise InputError("say what to run: spanscore run -- python agent.py")
    terminal.require_writable(args.output)
    environ = dict(os.environ)  # the program's own: what is set for this process is not for it
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # what a server warns of is in the scores and remarks here
    logging.getLogger("spanscore").setLevel(logging.ERROR)
    settings = _configured(args)
    folder = kept_folder(args.keep, "spanscore-run-")
    try:
        return asyncio.run(_run(args, command, settings, folder, environ))
    except ProgramError as error:
        say(f"error: {error}")
        return error.code
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _configured(args: argparse.Namespace) -> Settings:
    settings = measurement.configured(args)
    if args.config is None:
        settings = settings.model_copy(update={"export": Export.model_validate({"exporters": {}})})
    judge = settings.judge.model_copy(update={"try_at_start": False})
    evaluation = settings.evaluation
    if names := [x for name in args.metric for x in metric_names(name, settings)]:
        evaluation = narrowed(evaluation, dict.fromkeys(names))
    return settings.model_copy(update={"judge": judge, "evaluation": evaluation})


async def _run(
    args: argparse.Namespace,
    command: Sequence[str],
    settings: Settings,
    folder: Path,
    environ: Mapping[str, str],
) -> int:
    backends = _backends(environ)
    server = OneRun(settings_for(settings, folder, exporters(backends) if backends else None))
    code: int | None = None

    def server_ended(why: str) -> None:
        if code is None:
            say(f"the receiver has ended by an error, and the program goes on without it ({why})")

    try:
        async with server.serving(server_ended):
            env = environment(environ, server.endpoint, with_content=not backends)
            code = await run_program(command, env)
            is_whole = await _finished(server)
            traces, evaluations = await server.found()
            notices = server.notices
    except ServerEndedError as error:
        say(f"error: nothing is scored: {error}")
        return code or 1
    interrupted = [] if is_whole else ["interrupted: these are the scores that were there"]
    nothing = [] if traces else [_NOTHING_CAME]
    terminal.write_file(args.output, lambda: measurement.json_lines(evaluations))
    if traces:
        output = console(to_stderr=True)
        output.print()
        shown = score_summary.failing(evaluations, only=args.failing)
        score_summary.print_subjects(output, traces, shown)
        score_summary.print_summary(output, settings, RunSummary.of(evaluations))
    for remark in (*notices, *interrupted, *nothing):
        say(remark)
    if args.keep is not None:
        say(f"kept in {args.keep}: spanscore traces --store {args.keep / 'store.db'}")
    return code


def _backends(environ: Mapping[str, str]) -> dict[Signal, Backend]:
    """Where the program would have sent each signal, as far as anything listens there."""
    named = one_run.all_from_environment(environ)
    silent = dict.fromkeys((x.url, x.variable) for x in named.values() if not x.listens())
    for url, variable in silent:
        say(f"nothing listens on {url}, which {variable} names: nothing is passed on to it")
    return {signal: x for signal, x in named.items() if (x.url, x.variable) not in silent}


async def _finished(server: OneRun) -> bool:
    """Wait for the scores.

    Returns whether they are all there: Ctrl-C, or SIGTERM, ends the wait.
    """
    finishing = asyncio.create_task(server.finish())
    with (
        _handled(lambda _: finishing.cancel(), signal.SIGINT, signal.SIGTERM),
        console(to_stderr=True).status("scoring; Ctrl-C shows what is there"),
    ):
        await asyncio.wait({finishing})
    if finishing.cancelled():
        return False
    finishing.result()
    return True


_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_SIGNALS = ("TRACES", "LOGS", "METRICS")
_OF_BACKENDS = (
    *("ENDPOINT", "PROTOCOL", "HEADERS", "INSECURE"),
    *("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"),
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


async def run_program(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program with our standard streams, and pass signals on to it.

    Returns its exit code, for one that a signal ended 128 and the signal's number. Raises
    ProgramError.
    """
    process: asyncio.subprocess.Process | None = None
    early: list[int] = []  # what comes before there is a program

    def pass_on(number: int) -> None:
        if number == signal.SIGINT and _is_in_foreground():
            return  # the terminal has sent it to the program as well
        if process is None:
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    with _handled(pass_on, signal.SIGINT, *_PASSED_ON):
        try:
            process = await asyncio.create_subprocess_exec(*command, env=dict(env))
        except FileNotFoundError:
            message = f"{command[0]}: no such program; what follows `--` is run as it is"
            raise ProgramError(message, _NOT_FOUND) from None
        except OSError as error:
            message = f"{command[0]}: cannot be run ({error.strerror})"
            raise ProgramError(message, _NOT_EXECUTABLE) from None
        for number in early:
            pass_on(number)
        code = await process.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _handled(handle: Callable[[int], object], *numbers: int) -> Iterator[None]:
    """Within the block, signals with these numbers are handled so, and end nothing here."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
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
