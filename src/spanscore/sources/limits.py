"""How much of one stored trace is read: as much as a server keeps of one that it receives."""

from collections.abc import Sequence
from typing import Final

from spanscore.model.span import Span

MAX_TRACE_SPANS: Final = 10_000
MAX_TRACE_BYTES: Final = 64 * 2**20
"""Spans, and bytes of a backend's answer; the same numbers as `assemble.max_spans` and
`assemble.max_trace_bytes`.
"""


def within(spans: Sequence[Span]) -> tuple[Sequence[Span], str]:
    """At most MAX_TRACE_SPANS of a trace's spans, those that began first, and why it is not all of
    them, else "".
    """
    if len(spans) <= MAX_TRACE_SPANS:
        return spans, ""
    first = sorted(spans, key=lambda x: x.start_ns)[:MAX_TRACE_SPANS]
    return first, f"it has {len(spans):,} spans, of which the first {MAX_TRACE_SPANS:,} are read"
