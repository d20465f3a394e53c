"""What a rule of redaction is, and what several of them find out about a candidate."""

import re
from collections.abc import Callable
from dataclasses import dataclass


def _whole(value: str) -> int:
    return len(value)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to redact.

    A named group of `pattern` is the candidate, else the whole match; `extent` says how many of its
    characters are replaced (0: it is a false alarm). Where a text in lower case holds none of
    `hints`, the pattern is not tried. With `within`, the pattern is looked for only inside of what
    that matches, across marks of earlier redactions.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    extent: Callable[[str], int] = _whole
    within: re.Pattern[str] | None = None


def credential(value: str) -> int:
    """A letter and a digit, as credentials have and words have not."""
    return len(value) if any(c.isdigit() for c in value) and any(c.isalpha() for c in value) else 0
