"""`spanscore repair`: a damaged journal or store written anew with what can still be read."""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from spanscore import config
from spanscore.errors import InputError
from spanscore.store import connecting, salvage
from spanscore.store.locking import FileLock

if TYPE_CHECKING:
    from spanscore.store.salvage import Salvaged

_CALLED = {
    "requests": "requests",
    "quarantine": "requests that were put aside",
    "agent_traces": "agent traces",
    "evaluations": "evaluations",
    "judge_answers": "the judge's answers",
    "export_cursors": "exporters' places",
    "calibrations": "calibrations",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", type=Path, help="the server's configuration"
    )


def run(args: argparse.Namespace) -> int:
    """Repair what is damaged. Returns the exit code; InputError where a server runs."""
    settings = config.load(args.config) if args.config else config.default()
    store = connecting.file_of(settings.store)
    with ExitStack() as stack:
        _hold(stack, settings.journal.path, "journal", "journal.path")
        if store is not None:
            _hold(stack, store, "store", "store.url")
        _repair("journal", settings.journal.path, salvage.journal)
        if store is None:
            print("store: not an SQLite file; repair it with its database's own tools")
        else:
            _repair("store", store, lambda file: salvage.store(settings.store, file))
    return 0


def _hold(stack: ExitStack, file: Path, what: str, key: str) -> None:
    if file.parent.is_dir():
        stack.callback(FileLock(file, what, key).close)


def _lost(name: str, count: int) -> str:
    """What is lost; only the journal's ledger says how much there was."""
    return f"{count:,} lost" if name == "requests" or not count else f"at least {count:,} lost"


def _repair(what: str, file: Path, save: "Callable[[Path], Salvaged]") -> None:
    fault = salvage.fault_of(file)
    if fault is None:
        print(f"{what}: {file}: {'sound' if file.exists() else 'is not there'}, left as it is")
        return
    print(f"{what}: {file}: damaged ({fault})")
    try:
        result = save(file)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be written anew ({error.strerror or error}); make room, and try again"
        ) from error
    for name, called in _CALLED.items():
        if name in result.saved:
            lost = f", {_lost(name, result.lost[name])}" if name in result.lost else ""
            print(f"  {called}: {result.saved[name]:,} saved{lost}")
    if result.unreadable:
        print(f"  records that could not be read: {result.unreadable:,}")
    for note in result.notes:
        print(f"  {note}")
    print(f"  the damaged file is kept: {result.aside}")
