"""What of a server's memory is no data: how many heaps its threads share, and the code of libraries
that only its start runs.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_VARIABLE: Final = "MALLOC_ARENA_MAX"
_FEW: Final = "2"
_M_ARENA_MAX: Final = -8
"""The number that glibc's <malloc.h> has for it."""

_MADV_DONTNEED: Final = 4
"""The number that Linux's <sys/mman.h> has for it."""

_SMAPS: Final = Path("/proc/self/smaps")


def use_few() -> None:
    """Have all threads of this process, and of those that it starts, share two heaps of glibc;
    elsewhere do nothing.

    glibc makes up to eight for each CPU, one for each thread while it can, and what is freed in one
    is no room for another: the largest size of a busy server was a tenth larger. Whoever has set
    MALLOC_ARENA_MAX decides.
    """
    if _VARIABLE in os.environ:
        return
    import ctypes  # noqa: PLC0415 - no other command needs it

    os.environ[_VARIABLE] = _FEW
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, int(_FEW))


def let_go_of_code() -> None:
    """Take the compiled code of libraries out of this process's memory; elsewhere than on Linux do
    nothing.

    A start runs through 15 MB of it, and an idle server needs 3. What runs again is mapped again
    out of the kernel's cache of files, 64 KiB at a time.
    """
    with contextlib.suppress(OSError, ValueError):  # all it does is save memory
        _drop_unchanged_code()


def _drop_unchanged_code() -> None:
    """Raises OSError or ValueError where it cannot be known what is mapped."""
    import ctypes  # noqa: PLC0415 - as above

    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not _SMAPS.is_file():
        return
    madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    maps = _SMAPS.read_bytes().decode("utf-8", "surrogateescape")  # paths may be any bytes
    for start, end in _unchanged_code([x for x in maps.split("\n") if x.strip()]):
        madvise(start, end - start, _MADV_DONTNEED)


def _unchanged_code(smaps: list[str]) -> Iterator[tuple[int, int]]:
    """First and last address of each mapped file's code, where no page of it was changed since.

    A page that was changed is counted as anonymous, and as swap once it was swapped out.
    """
    code: tuple[int, int] | None = None
    for line in smaps:
        fields = line.split()
        if not fields[0].endswith(":"):
            is_code = len(fields) > 5 and fields[1] == "r-xp" and fields[5].startswith("/")
            start, end = (int(x, 16) for x in fields[0].split("-"))
            code = (start, end) if is_code else None
        elif fields[0] in {"Anonymous:", "Swap:"} and fields[1] != "0":
            code = None
        elif fields[0] == "VmFlags:" and code is not None:  # the last line of a mapping
            yield code
