"""The files that options such as `--output` name: refused before anything is paid for, written when
all is there.
"""

import os
from collections.abc import Callable
from pathlib import Path

from spanscore import private_files
from spanscore.errors import InputError


def write(path: Path | None, text: Callable[[], str]) -> None:
    """Write `text` to a file that only its owner may read, if one was asked for.

    Raises InputError where it cannot be written there, OutputError where it does not fit.
    """
    if path is None:
        return
    private_files.write(path, text().encode(errors="replace"))


def require_writable(*paths: Path | None) -> None:
    """Refuse what cannot be written before anything is paid for."""
    given = [x for x in paths if x is not None]
    for place, path in enumerate(given):
        folder = path.absolute().parent
        if str(path) == "-":
            raise InputError("-: name a file; standard output has the table")
        if not folder.is_dir():
            raise InputError(
                f"{path}: cannot be written (there is no folder {path.parent}); make it, or name"
                " another"
            )
        if path.is_dir():
            raise InputError(f"{path}: cannot be written (it is a folder); name a file")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written (permission denied); name another file")
        if path.absolute() in [x.absolute() for x in given[:place]]:
            raise InputError(f"{path}: is named for two things; name a file for each")
