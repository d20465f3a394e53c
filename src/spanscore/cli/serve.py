"""`spanscore serve`: the server."""

import argparse
import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from spanscore.cli.options import add_config

if TYPE_CHECKING:
    from spanscore.config import Settings
    from spanscore.serving.pipeline import Pipeline

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
    from spanscore import (  # noqa: PLC0415 - the servers' libraries, which no other command needs
        config,
        telemetry,
    )

    settings = config.load(args.config)
    telemetry.configure_logging(settings.telemetry)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: "Settings") -> None:
    from spanscore.api import http_listener  # noqa: PLC0415 - as above
    from spanscore.api.server import Server  # noqa: PLC0415 - as above
    from spanscore.serving.pipeline import Pipeline  # noqa: PLC0415 - as above

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    pipeline = Pipeline(settings)
    control = Server(
        settings.api, pipeline, pipeline.authenticators, settings.tenancy, pipeline.page_key
    )
    _log_what_scores_rest_on(settings)
    http = None
    if settings.api.enabled:
        await control.start()
        try:
            http = await http_listener.start(settings.api, control)
        except BaseException:
            await control.stop(0)  # gRPC prints a traceback where a loop ends before its server
            raise
    _allow_open_files(settings)
    gc.freeze()
    gc.enable()
    gc.set_threshold(_COLLECT_EVERY)
    sys.setswitchinterval(_SWITCH_EVERY_S)
    serving = asyncio.create_task(pipeline.run(stopping, started=_note_ready))
    stop_requested = asyncio.create_task(stopping.wait())
    progress = asyncio.create_task(_log_progress(settings, pipeline))
    await asyncio.wait({serving, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
    stop_requested.cancel()
    progress.cancel()
    for server in (control, http):
        if server is not None:
            await server.stop()  # while the store that it asks is still open
    await serving
    _log.info("stopped")


def _note_ready() -> None:
    _log.info("ready")


async def _log_progress(settings: "Settings", pipeline: "Pipeline") -> None:
    from spanscore.cli import status_line  # noqa: PLC0415 - as above

    exporters = list(settings.export.exporters)
    await status_line.run(lambda: status_line.status(pipeline.meter, pipeline.health(), exporters))


def _allow_open_files(settings: "Settings") -> None:
    """Let the process open a file for each connection and those that it writes; warn where it may
    not.
    """
    wanted = (
        settings.receive.grpc.max_connections + settings.receive.http.max_connections + _OTHER_FILES
    )
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return
    granted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
    if granted < wanted:
        _log.warning(
            "this process may open %d files; receive.grpc.max_connections and"
            " receive.http.max_connections need %d: lower these or raise the limit (ulimit -n)",
            granted,
            wanted,
        )


def _log_what_scores_rest_on(settings: "Settings") -> None:
    if lacking := settings.without_judge():
        _log.info(
            "%s; set judge.model or SPANSCORE_JUDGE_MODEL, or name checks in evaluation.metrics,"
            " which need none",
            lacking,
        )
    if settings.embedding.chosen is None and "coherence" in settings.evaluation.measured():
        _log.info(
            "no embedding is configured, so coherence is skipped; set embedding.model or"
            " embedding.local_model"
        )
