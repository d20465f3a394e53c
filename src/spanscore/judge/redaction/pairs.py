"""Secrets in objects that hold a name and a value beside each other."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from spanscore.judge.redaction.labels import NAMED, QUOTE, SECRETS, secret
from spanscore.judge.redaction.rule import Rule, credential

PLAIN = r"[^\"'\\\n]{4,1024}"
NAME = rf"[\"'](?i:name|key|field|header|variable|label){QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE}"
VALUE = rf"[\"'](?i:value|val){QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE}"
SEPARATOR = rf"{QUOTE}\s{{0,4}},\s{{0,64}}\\{{0,31}}"
_NAMES: Final = ((r"[^\s\"'\\]{0,64}?", secret), (r"[^\"'\\\n]{0,64}?", credential))
"""What may stand before the label in the name of a pair, and what its value then must be: beside
words, such as of a button "Forgot password", it looks like a credential.
"""


def _pairs(name: str, extent: Callable[[str], int]) -> Iterator[Rule]:
    """The rules for a name and a value in an object, in either order.

    Not for `content`, which is what a tool returned of whose name the label is a part.
    """
    named = rf"{NAME}{name}{NAMED}"
    value = rf"{VALUE}(?P<value>{PLAIN})"
    # {"name": "DB_PASSWORD", "value": "…"}
    yield Rule("password", re.compile(named + SEPARATOR + value), SECRETS, extent)
    # {"value": "…", "name": "DB_PASSWORD"}
    yield Rule("password", re.compile(value + SEPARATOR + named + QUOTE), SECRETS, extent)


RULES = tuple(rule for name, extent in _NAMES for rule in _pairs(name, extent))
