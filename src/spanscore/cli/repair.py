"""`spanscore repair`: writes a damaged journal or store anew."""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from spanscore import config
from spanscore.cli.options import add_config
from spanscore.store import connections, repair
from spanscore.store.locks import FileLock
from spanscore.store.salvage import Copied


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_config(parser, "the server's configuration")


def run(args: argparse.Namespace) -> int:
    """Repair what is damaged. Returns the exit code; InputError where a server runs."""
    settings = config.load(args.config)
    store = connections.file_of(settings.store)
    with ExitStack() as stack:
        _hold(stack, settings.journal.path, "journal", "journal.path")
        if store is not None:
            _hold(stack, store, "store", "store.url")
        journal = settings.journal.path
        _repair("journal", journal, lambda: repair.journal(journal))
        if store is None:
            print("store: not an SQLite file; repair it with its database's own tools")
        else:
            _repair("store", store, lambda: repair.store(settings.store))
    return 0


def _hold(stack: ExitStack, file: Path, what: str, key: str) -> None:
    if file.parent.is_dir():
        stack.callback(FileLock(file, what, key).close)


def _repair(what: str, file: Path, save: Callable[[], tuple[list[Copied], Path]]) -> None:
    fault = repair.fault_of(file)
    if fault is None:
        print(f"{what}: {file}: {'sound' if file.exists() else 'is not there'}, left as it is")
        return
    print(f"{what}: {file}: damaged ({fault})")
    copied, aside = save()
    for table in copied:
        if table.saved or table.lost or not table.is_exact:
            print(f"  {table}")
    print(f"  the damaged file is kept: {aside}")
    if any(x.lost or not x.is_exact for x in copied):
        print(f"  SQLite's own tool may read more of it: sqlite3 {aside} .recover | sqlite3 NEW.db")
    else:
        print("  all rows are there: the damage was in an index, or where no rows are")
