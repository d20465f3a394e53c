"""The filter language of lists, after https://google.aip.dev/160: text to a condition on a table of
fields.

::

    status = SCORED AND (value < 0.5 OR NOT label = "pass")
        AND evaluated_at_ns > "2026-11-01T00:00:00Z"

A comparison has a field on its left, `=`, `!=`, `<`, `<=`, `>`, `>=` or `:`, and a value. A value
is a word, or text in single or double quotes. `AND`, `OR` and `NOT` (or `-`) are in capitals; as in
AIP-160 `OR` binds more strongly than `AND`, and two conditions without a word between them must
both hold. `field:*` asks whether there is a value at all, `field:text` whether a text contains
another, in any case, or a list has an element. With `=` and `!=` a `*` at the beginning or end of a
text stands for anything. A comparison with a field that has no value does not hold, whatever it is;
`NOT` turns that round.
"""

from spanscore.filters.fields import Field, Fields, Value
from spanscore.filters.matching import Filter, parse, test_of
from spanscore.filters.syntax import MAX_CHARS, And, Comparison, Node, Not, Or

__all__ = [
    "MAX_CHARS",
    "And",
    "Comparison",
    "Field",
    "Fields",
    "Filter",
    "Node",
    "Not",
    "Or",
    "Value",
    "parse",
    "test_of",
]
