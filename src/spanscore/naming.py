"""The name that somebody may have meant."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that there is not: the one it is near to, else all that there are.

    >>> nearest("coherance", ["coherence", "confidence"])
    "did you mean 'coherence'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
