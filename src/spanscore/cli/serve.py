"""`spanscore serve`: the server, from its configuration to SIGTERM."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from spanscore import config, telemetry
from spanscore.api.service import Server
from spanscore.config import Settings
from spanscore.pipeline import Pipeline

_log = logging.getLogger(__name__)

_CONTROL_GRACE_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="the configuration; without it, the defaults")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, then finish what is under way. Returns the exit code."""
    settings = config.load(args.config) if args.config else config.default()
    telemetry.configure_logging(settings.telemetry)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    pipeline = Pipeline(settings)
    control = Server(settings.api, pipeline)
    if settings.api.enabled:
        await control.start()
    closing = asyncio.create_task(_close(control, stopping))
    try:
        await pipeline.run(stopping, started=lambda: _log.info("ready"))
    finally:
        stopping.set()
        await closing
    _log.info("stopped")


async def _close(control: Server, stopping: asyncio.Event) -> None:
    """Stop answering before the store that the answers come from is closed."""
    await stopping.wait()
    await control.stop(_CONTROL_GRACE_S)
