"""Mark turns as damaged that may go on in a trace too truncated to be matched."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from spanscore.model.trace import AgentTrace

OF_OTHER_PARTS = frozenset({"user_input", "history", "plan", "tool_calls", "model_calls", "usage"})
"""The facts that other traces of the same turn would have, besides the answer."""

_OF_LATER_PARTS = frozenset({"final_output", "tool_calls", "model_calls", "usage"})
_MAX_SERVICES = 1000


class UnmatchedContinuations:
    """When each service last began a trace that may continue a turn, but has no keys to match it
    by, since too much of it was cut.
    """

    def __init__(self, traces: Iterable[AgentTrace] = ()) -> None:
        self._last_ns: OrderedDict[str | None, int] = OrderedDict()
        self.take(traces)

    def take(self, traces: Iterable[AgentTrace]) -> None:
        """Remember the traces that may continue a turn."""
        for trace in traces:
            if trace.damaged and OF_OTHER_PARTS.issubset(trace.damaged):
                last_ns = self._last_ns.pop(trace.service_name, 0)
                self._last_ns[trace.service_name] = max(last_ns, trace.started_ns)
                if len(self._last_ns) > _MAX_SERVICES:
                    self._last_ns.popitem(last=False)

    def marked(self, trace: AgentTrace) -> AgentTrace:
        """The agent trace; damaged if it ends in requested tools and a later trace may
        continue it.
        """
        if not self._last_ns or trace.started_ns >= self._last_ns.get(trace.service_name, 0):
            return trace
        if not _is_open(trace):
            return trace
        return replace(trace, damaged=tuple(sorted(_OF_LATER_PARTS.union(trace.damaged))))


def _is_open(trace: AgentTrace) -> bool:
    """Whether the turn ends in a tool call that has neither a result nor an error.

    It may also look like that where the answer was cut away.
    """
    if trace.final_output is not None:
        return False
    last = trace.tool_calls[-1] if trace.tool_calls else None
    if last is not None and not last.returned and last.error is None:
        return True
    return "final_output" in trace.damaged
