"""Which records can meet a filter, by their text as it is stored: the others need not be decoded to
know that.
"""

import re
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from spanscore.filters import And, Comparison, Node, Not, Or

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
"""Characters for which JSON has another form."""

Test: TypeAlias = Callable[[str], bool]


def test_of(node: Node | None, fields: Collection[str]) -> Test | None:
    """Whether a record may meet a checked filter: False only where it cannot.

    None: its text shows nothing.

    `fields` are texts that a record contains as they are.
    """
    found = None if node is None else _test(node, fields)
    if found is None:
        return None
    may_hold = found
    # what is escaped is not looked for
    return lambda record: "\\u" in record or may_hold(record.casefold())


def _test(node: Node, fields: Collection[str]) -> Test | None:
    """A test of a record in folded case."""
    match node:
        case Comparison():
            return _contains(node, fields)
        case Not():
            return None
        case And(parts):
            some = [x for part in parts if (x := _test(part, fields)) is not None]
            return (lambda record: all(test(record) for test in some)) if some else None
        case Or(parts):
            every = [_test(part, fields) for part in parts]
            known = [x for x in every if x is not None]
            return (
                (lambda record: any(test(record) for test in known))
                if len(known) == len(every)
                else None
            )


def _contains(comparison: Comparison, fields: Collection[str]) -> Test | None:
    """That the longest part of what is looked for which JSON writes as it is stands somewhere in
    the record.
    """
    if comparison.operator not in (":", "=") or comparison.field not in fields:
        return None
    parts = _ESCAPED.split(
        comparison.value if comparison.operator == ":" else comparison.value.strip("*")
    )
    wanted = max(parts, key=len).casefold()
    is_there_alone = comparison.operator == ":" and comparison.value == "*"
    return None if is_there_alone or not wanted else (lambda record: wanted in record)
