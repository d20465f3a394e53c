"""`spanscore serve`: the server, and its status line."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from spanscore.cli.options import add_config
from spanscore.cli.terminal import on_one_line
from spanscore.telemetry import Meter, declared

if TYPE_CHECKING:
    from spanscore.config import Settings

_log = logging.getLogger(__name__)

_COLLECT_EVERY = 50_000
"""Objects between two collections: spans and messages come by the ten thousand, and hold no
cycles.
"""

_OTHER_FILES = 500
"""Files, and connections to backends and judges, beside those of senders."""

_SWITCH_EVERY_S = 0.001
"""How long a thread that decodes keeps others waiting: for one request the event loop waits for its
turn ten times.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, then drain. Returns the exit code."""
    # what is imported stays: to look through it again and again takes a sixth of the start
    gc.disable()
    try:
        return _run(args)
    finally:
        gc.enable()


def _run(args: argparse.Namespace) -> int:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is printed in our words, once
    from spanscore import config, telemetry  # noqa: PLC0415 - the servers' libraries

    settings = config.load(args.config)
    telemetry.configure_logging(settings.telemetry)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: "Settings") -> None:
    from spanscore.api.server import Server, start_http  # noqa: PLC0415 - as above
    from spanscore.serving.pipeline import Pipeline  # noqa: PLC0415 - as above

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    pipeline = Pipeline(settings)
    known = (pipeline.authenticators, settings.tenancy, pipeline.page_key)
    control = Server(settings.api, pipeline, *known)
    _log_what_scores_rest_on(settings)
    http = None
    if settings.api.enabled:
        await control.start()
        try:
            http = await start_http(settings.api, control)
        except BaseException:
            await control.stop(0)  # gRPC prints a traceback where a loop ends before its server
            raise
    _allow_open_files(settings)
    gc.freeze()
    gc.enable()
    gc.set_threshold(_COLLECT_EVERY)
    sys.setswitchinterval(_SWITCH_EVERY_S)
    serving = asyncio.create_task(pipeline.run(stopping, started=lambda: _log.info("ready")))
    stop_requested = asyncio.create_task(stopping.wait())
    names = list(settings.export.exporters)
    shown = show_status(lambda: status(pipeline.meter, pipeline.health(), names))
    progress = asyncio.create_task(shown)
    await asyncio.wait({serving, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
    stop_requested.cancel()
    progress.cancel()
    for server in (control, http):
        if server is not None:
            await server.stop()  # while the store that it asks is still open
    await serving
    _log.info("stopped")


def _allow_open_files(settings: "Settings") -> None:
    """Let the process open a file for each connection and those that it writes; warn where it may
    not.
    """
    receive = settings.receive
    wanted = receive.grpc.max_connections + receive.http.max_connections + _OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return
    granted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
    if granted < wanted:
        keys = "receive.grpc.max_connections and receive.http.max_connections"
        fix = "lower these or raise the limit (ulimit -n)"
        _log.warning("this process may open %d files; %s need %d: %s", granted, keys, wanted, fix)


def _log_what_scores_rest_on(settings: "Settings") -> None:
    if lacking := settings.without_judge():
        checks = "name checks in evaluation.metrics, which need none"
        _log.info("%s; set judge.model or SPANSCORE_JUDGE_MODEL, or %s", lacking, checks)
    if settings.embedding.chosen is None and "coherence" in settings.evaluation.measured():
        fix = "set embedding.model or embedding.local_model"
        _log.info("no embedding is configured, so coherence is skipped; %s", fix)


_TERMINAL_EVERY_S, _LOG_EVERY_S = 1.0, 60.0
_CLEAR = "\r\x1b[2K"
_WIDE = 400


def status(meter: Meter, health: Mapping[str, Any], exporters: Iterable[str]) -> str:
    """Traces, scores and where they go, in a line.

    `exporters` are the names of those that are configured.
    """
    totals = meter.totals()
    scored = next(x.values for x in meter.collect() if x.metric is declared.EVALUATIONS_SCORED)
    label = declared.EVALUATIONS_SCORED.labels.index("label")
    counts = [count for labels, count in scored.items() if labels[label] == "fail"]
    failing = sum(x for x in counts if isinstance(x, float | int))
    waiting = health["open_traces"] + health["waiting_traces"] + health["waiting_parts"]
    failed = int(totals.get("evaluations_failed", 0))
    parts = (
        f"{int(totals.get('agent_traces', 0)):,} traces",
        f"{int(totals.get('evaluations_scored', 0)):,} scores",
        f"{int(failing):,} failing",
        *([f"{failed:,} not measured"] if failed else []),
        f"{waiting:,} traces waiting",
    )
    return f"{', '.join(parts)}; {_destinations(health, exporters)}"


def _destinations(health: Mapping[str, Any], exporters: Iterable[str]) -> str:
    behind, undelivered = health["scores_to_export"], health["scores_undelivered"]
    named = []
    for name in exporters:
        counts = {"to send": behind.get(name), "undelivered": undelivered.get(name)}
        notes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        named.append(f"{name} ({notes})" if notes else name)
    if not named:
        return "scores stay in the store: no exporter is configured"
    return f"scores go to {', '.join(named)}"


async def show_status(read: Callable[[], str]) -> None:
    """Show what `read` gives, for ever: where standard error is a terminal in a line of its own,
    else in the log.

    Nothing is shown while nothing changes.
    """
    if sys.stderr.isatty():
        with _line_of_its_own() as line:
            await _changes(read, _TERMINAL_EVERY_S, line.show)
    else:
        await _changes(read, _LOG_EVERY_S, lambda text: _log.info("%s", text))


async def _changes(read: Callable[[], str], every_s: float, show: Callable[[str], None]) -> None:
    last = read()
    while True:
        await asyncio.sleep(every_s)
        if (text := read()) != last:
            show(text)
            last = text


class _Line:
    """A stream for log lines, below which a line stands that is written anew."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, text: str) -> None:
        """Put `text` in the place of what stands there."""
        self._shown = on_one_line(text, max(shutil.get_terminal_size((_WIDE, 24)).columns - 1, 20))
        self._stream.write(f"{_CLEAR}{self._shown}")
        self._stream.flush()

    def write(self, text: str) -> int:
        """Write log lines above it."""
        self._stream.write(f"{_CLEAR}{text}{self._shown if text.endswith(chr(10)) else ''}")
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        self._stream.flush()

    def end(self) -> None:
        """Leave the line where it is, and begin the next."""
        if self._shown:
            self._stream.write("\n")
            self._shown = ""
        self._stream.flush()


@contextlib.contextmanager
def _line_of_its_own() -> Iterator[_Line]:
    """A line at the bottom of the terminal; while the block runs, log lines are written above
    it.
    """
    line = _Line(sys.stderr)
    handlers = [x for x in logging.getLogger().handlers if isinstance(x, logging.StreamHandler)]
    for handler in handlers:
        handler.setStream(line)
    try:
        yield line
    finally:
        line.end()
        for handler in handlers:
            handler.setStream(sys.stderr)
