"""`spanscore migrate`: a store of an older version, changed before its server starts."""

import argparse
from pathlib import Path

from spanscore import config
from spanscore.store import connecting
from spanscore.store.schema import VERSION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", type=Path, help="the server's configuration"
    )


def run(args: argparse.Namespace) -> int:
    """Change the tables, and print from which version to which. Returns the exit code.

    Raises ConfigError where a newer version has written the store, or another process uses it.
    """
    settings = config.load(args.config) if args.config else config.default()
    before = connecting.version(settings.store)
    if before is None:
        print("store: is not there; the server makes it with the tables of this version")
    elif before == VERSION:
        print(f"store: has the tables of this version ({VERSION}), left as they are")
    else:
        connecting.connect(settings.store).dispose()
        print(f"store: tables changed from version {before} to {VERSION}")
    return 0
