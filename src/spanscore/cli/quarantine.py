"""`spanscore quarantine`: acknowledged requests that cannot be read."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from spanscore import config, local_files
from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import console, plain_table, print_json, printable, utc
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
    elif not found:
        print("nothing was put aside")
    else:
        columns = ("received (UTC)", "signal", "bytes", "why")
        console().print(plain_table(columns, ("bytes",), map(_cells, found), wrapped={"why"}))
    return 0


def _cells(request: quarantine.Quarantined) -> Sequence[str]:
    received, size = utc(request.received_ns), f"{request.size_bytes:,}"
    return f"{received:%Y-%m-%d %H:%M:%S}", request.signal, size, printable(request.reason)


def _write(path: Path, found: Sequence[quarantine.Quarantined], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror}); name another folder"
        ) from error
    for request in found:
        local_files.write(
            folder / f"{request.signal}-{request.id}.bin", quarantine.body(path, request.id)
        )
