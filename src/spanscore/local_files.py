"""Private files, and files read again when changed."""

import contextlib
import errno
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from spanscore.errors import InputError, OutputError

MODE = 0o600
_DEVICES = frozenset({"dev", "proc"})
_BESIDE_A_DATABASE = ("-wal", "-shm")
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""No space, quota, longest file, a device that fails: nothing is wrong with the name."""


def write(path: Path, content: bytes) -> None:
    """Write a file whole: at any time it holds what it held before or all of `content`, and only
    its owner reads it.

    A link stays one, the file behind it is replaced. What is no file, such as a pipe, is written
    to.

    Raises InputError where it cannot be written there, OutputError where it does not fit.
    """
    write_parts(path, (content,))


def write_parts(path: Path, content: Iterable[bytes]) -> None:
    """The same of content that comes in parts, of which no more than one need be in memory."""
    try:
        target = Path(os.path.realpath(path))
        if _is_device(target) or _is_device(path.absolute()):
            _write_into(path, content)
        else:
            _replace(target, content)
    except OSError as error:
        raise cannot_write(str(path), error) from error


def cannot_write(where: str, error: OSError) -> InputError | OutputError:
    """The error to raise where something could not be written, sorted by what to do about it."""
    message = f"{where}: cannot be written ({error.strerror or error})"
    if error.errno in NO_ROOM:
        return OutputError(f"{message}; make room, or write to another place")
    return InputError(f"{message}; name another file")


def make(path: Path) -> None:
    """Make an empty file, with its folder, where there is none, and keep others from reading it.

    Raises OSError.

    For databases, which SQLite would make readable by all. It gives the files beside one the same
    mode, so those that were there before are restricted too. One that is there is not opened:
    closing it again would undo SQLite's locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE))
    except FileExistsError:
        for suffix in ("", *_BESIDE_A_DATABASE):
            _restrict(path.with_name(f"{path.name}{suffix}"))


def open_to_append(path: Path, mode: int = MODE) -> int:
    """The descriptor of a file that is read and added to, made with its folder where there is none.

    Raises OSError.

    It gets `mode` also where it was there, if it is ours.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _restrict(path, mode)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)


def _restrict(path: Path, mode: int = MODE) -> None:
    """Set the mode of a file that is there and ours; what is no file, such as a pipe, keeps its
    own.
    """
    with contextlib.suppress(FileNotFoundError, PermissionError):
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)


def _is_device(path: Path) -> bool:
    # /dev/stdout leads to a file that others have open
    if path.parts[1:2] and path.parts[1] in _DEVICES:
        return True
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _write_into(path: Path, content: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(content)


def _replace(path: Path, content: Iterable[bytes]) -> None:
    try:
        file, name = tempfile.mkstemp(prefix=".spanscore-", dir=path.parent)  # with mode 0600
    except PermissionError:
        if not path.exists():
            raise
        _rewrite(path, content)  # the folder takes no new file, but this one may be changed
        return
    try:
        with os.fdopen(file, "wb") as opened:
            opened.writelines(content)
            opened.flush()
            os.fsync(file)
            _keep_owner(file, path)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _rewrite(path: Path, content: Iterable[bytes]) -> None:
    _restrict(path)
    with path.open("wb") as file:
        file.writelines(content)


def _keep_owner(file: int, path: Path) -> None:
    """Whose file it was, his it stays, where root writes it anew."""
    try:
        before = path.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(file, before.st_uid, before.st_gid)


_log = logging.getLogger(__name__)

T = TypeVar("T")


class Watched(Generic[T]):
    """What is made of files, and made again when one of them has changed. Thread-safe.

    The files are looked at when `get` is called, at most every `every_s` seconds; 0 looks each
    time.
    """

    def __init__(
        self,
        files: Sequence[Path],
        make: Callable[[], T],
        *,
        every_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises what `make` raises."""
        self._files = tuple(files)
        self._make = make
        self._every_s = every_s
        self._clock_s = clock_s
        self._lock = Lock()
        self._looked_s = clock_s()
        self._state = self._look()
        self._value = make()

    def get(self) -> T:
        """What the files make now; as before, with a line in the log, where they make nothing:
        half-written, say.
        """
        with self._lock:
            now_s = self._clock_s()
            if now_s - self._looked_s >= self._every_s:
                self._looked_s = now_s
                self._renew()
            return self._value

    def _renew(self) -> None:
        state = self._look()
        if state == self._state:
            return
        self._state = state
        names = ", ".join(map(str, self._files))
        try:
            self._value = self._make()
        except (OSError, ValueError) as error:
            _log.warning(
                "%s changed and cannot be used (%s); what was there before stays in use",
                names,
                error,
            )
        else:
            _log.info("%s changed and was read again", names)

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_state_of, self._files))


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
