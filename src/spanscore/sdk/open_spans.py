"""Which spans of the application have begun and not ended: their traces are not complete."""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

_MAX_TRACES: Final = 100_000
"""Traces with open spans that are remembered; past it the oldest are forgotten."""


class OpenSpans:
    """The ids of open spans by trace, in hex."""

    def __init__(self) -> None:
        self._by_trace: OrderedDict[str, set[str]] = OrderedDict()

    def begun(self, trace_id: str, span_id: str) -> None:
        """A span has begun."""
        self._by_trace.setdefault(trace_id, set()).add(span_id)
        if len(self._by_trace) > _MAX_TRACES:
            self._by_trace.popitem(last=False)

    def ended(self, trace_id: str, span_id: str) -> None:
        """A span has ended."""
        open_spans = self._by_trace.get(trace_id)
        if open_spans is not None:
            open_spans.discard(span_id)
            if not open_spans:
                del self._by_trace[trace_id]

    def forget(self, trace_id: str) -> None:
        """Of this trace it is no longer known which spans are open."""
        self._by_trace.pop(trace_id, None)

    def of_trace(self, trace_id: str) -> Collection[str]:
        """The open spans of a trace."""
        return self._by_trace.get(trace_id, ())
