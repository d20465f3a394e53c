"""How names are written for a person: the one that somebody may have meant, and a file's."""

import difflib
from collections.abc import Iterable
from pathlib import Path


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that there is not: the one it is near to, else all that there are.

    >>> nearest("coherance", ["coherence", "confidence"])
    "did you mean 'coherence'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def short_path(path: Path) -> str:
    """The path from the working folder on, where it lies in it; else the path as it is.

    >>> short_path(Path.cwd() / "tests" / "cassettes" / "test_refund.json")
    'tests/cassettes/test_refund.json'
    """
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the working folder is gone
        return str(path)
