"""How many heaps the threads of a server share."""

import os
from typing import Final

_VARIABLE: Final = "MALLOC_ARENA_MAX"
_FEW: Final = "2"
_M_ARENA_MAX: Final = -8
"""The number that glibc's <malloc.h> has for it."""


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
