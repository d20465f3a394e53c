"""`spanscore quarantine`: acknowledged requests that cannot be read."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from spanscore import config, local_files
from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import Columns, print_items, print_json, printable, utc
from spanscore.errors import InputError
from spanscore.store import quarantine

TAKES = ("json",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_config(parser, "the server's configuration")
    argument(parser, "--out FOLDER", "also write each request, as it came, to a file there")


def run(args: argparse.Namespace) -> int:
    """List them, oldest first. Returns the exit code."""
    settings = config.load(args.config)
    found = quarantine.listed(settings.journal.path)
    if args.out:
        _write(settings.journal.path, found, args.out)
    if args.json:
        for request in found:
            print_json(dataclasses.asdict(request))
    else:
        print_items(_COLUMNS, ("bytes",), found, none="nothing was put aside", wrapped={"why"})
    return 0


_COLUMNS: Columns = (
    ("received (UTC)", lambda x: f"{utc(x.received_ns):%Y-%m-%d %H:%M:%S}"),
    ("signal", lambda x: x.signal),
    ("bytes", lambda x: f"{x.size_bytes:,}"),
    ("why", lambda x: printable(x.reason)),
)


def _write(path: Path, found: Sequence[quarantine.Quarantined], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot be made ({error.strerror}); name another folder"
        raise InputError(f"{folder}: {problem}") from error
    for request in found:
        file = folder / f"{request.signal}-{request.id}.bin"
        local_files.write(file, quarantine.body(path, request.id))
