"""The checks of `spanscore doctor`."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "warn", "FAIL"]

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_MAX_CHARS = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: `about` is what was looked at, `fix` what to do where that is not
    well.
    """

    about: str
    status: Status
    message: str
    fix: str | None = None


def ok(about: str, message: str) -> Finding:
    """It is well."""
    return Finding(about, "ok", message)


def warn(about: str, message: str, fix: str) -> Finding:
    """It may become a fault, or could not be looked at."""
    return Finding(about, "warn", message, fix)


def fail(about: str, message: str, fix: str) -> Finding:
    """It is a fault."""
    return Finding(about, "FAIL", message, fix)


def cause_of(error: BaseException) -> str:
    """What an error says, on one line, without credentials that a URL in it may have.

    >>> cause_of(OSError("no answer from http://me:secret@there"))
    'no answer from http://there'
    """
    line = " ".join(str(error).split()) or type(error).__name__
    return _CREDENTIALS.sub("", line)[:_MAX_CHARS]
