"""A turn that ends where a model asked for tools may go on in a trace of which so much was cut that nothing tells."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from spanscore.model.trace import AgentTrace

OF_OTHER_PARTS = frozenset({"user_input", "history", "plan", "tool_calls", "model_calls", "usage"})
"""What other traces of the same turn would tell, besides the answer."""

_OF_LATER_PARTS = frozenset({"final_output", "tool_calls", "model_calls", "usage"})
_MAX_SERVICES = 1000


class UnmatchedContinuations:
    """When each service last began a trace that may go on a turn, though what was cut of it does not tell of which."""

    def __init__(self, traces: Iterable[AgentTrace] = ()) -> None:
        self._last_ns: OrderedDict[str | None, int] = OrderedDict()
        self.take(traces)

    def take(self, traces: Iterable[AgentTrace]) -> None:
        """Remember those that may."""
        for trace in traces:
            if trace.damaged and OF_OTHER_PARTS.issubset(trace.damaged):
                last_ns = self._last_ns.pop(trace.service_name, 0)
                self._last_ns[trace.service_name] = max(last_ns, trace.started_ns)
                if len(self._last_ns) > _MAX_SERVICES:
                    self._last_ns.popitem(last=False)

    def marked(self, trace: AgentTrace) -> AgentTrace:
        """The trace; if a model asks for tools at its end, and a later one may tell what came of that, as damaged."""
        if not self._last_ns or trace.started_ns >= self._last_ns.get(trace.service_name, 0) or not _is_open(trace):
            return trace
        return replace(trace, damaged=tuple(sorted(_OF_LATER_PARTS.union(trace.damaged))))


def _is_open(trace: AgentTrace) -> bool:
    """Whether the last thing that shows is a tool call that nobody ran or was told of, or that was halted.

    So it may be, too, where the answer was cut, so that none shows.
    """
    if trace.final_output is not None:
        return False
    last = trace.tool_calls[-1] if trace.tool_calls else None
    return (last is not None and not last.returned and last.error is None) or "final_output" in trace.damaged
