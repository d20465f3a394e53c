"""How common traces of one group are: the group's share among traces that were stored before, kept
with a trace.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Literal

from pydantic import Field, field_validator

from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns
from spanscore.model.trace import AgentTrace

FREQUENCY = "spanscore.frequency"
"""The name under which a trace's attributes have it."""

_LEAST = 100
"""Traces below which no share is given."""

_MAX_WINDOWS = 24
"""Traces that started more windows ago have no frequency: each window that is asked about costs a
look at the store.
"""

_MAX_COUNTS = 500
"""Counts that are kept, each of a tenant and a window; of more, those asked for longest ago are
made again.
"""

_MAX_TOOLS = 100


class Frequency(Options):
    """How common traces like one are, for the rules' condition `frequency`."""

    by: list[Literal["service", "agent", "tools", "user"]] = Field(
        default=["agent", "tools"], min_length=1
    )
    """What traces of one group have in common; `tools`: the tools that were called, in the order of
    the first calls.
    """

    window: Duration = duration_ns("1h")
    """How long one count holds. Traces that started in one window are compared with those that were
    stored before the window before it, so that whoever decides about a trace, now or later, sees
    the same ones. What started 24 windows ago, or was sent so late, is not compared.
    """

    of: int = Field(default=1000, ge=100, le=20_000)
    """How many traces are counted, the last ones.

    A share below one in so many is that of a group that was not seen.
    """

    @field_validator("window")
    @classmethod
    def _is_no_moment(cls, window: int) -> int:
        if window < duration_ns("1m"):
            raise ValueError(
                "a window is 1m at least: until it is over, what was stored before it must be there"
            )
        return window


class Frequencies:
    """Notes with traces how common they are. May be used from several threads."""

    def __init__(
        self,
        config: Frequency,
        stored_before: Callable[[str, int, int], Iterable[AgentTrace]],
        clock_ns: Callable[[], int],
    ) -> None:
        """`stored_before` gives, for a tenant, a time in Unix ns and a number, its last so many
        traces before that.
        """
        self._config = config
        self._stored_before = stored_before
        self._clock_ns = clock_ns
        self._counts: OrderedDict[tuple[str, int], Counter[tuple[object, ...]]] = OrderedDict()
        self._lock = Lock()

    def added_to(self, traces: Sequence[AgentTrace]) -> list[AgentTrace]:
        """The traces, each with its frequency where that is known. Blocks."""
        return [self._with_frequency(trace) for trace in traces]

    def _with_frequency(self, trace: AgentTrace) -> AgentTrace:
        counted = self._counted(trace.tenant, trace.started_ns)
        total = counted.total()
        if total < _LEAST:
            return trace
        share = counted[group_of(trace, self._config.by)] / total
        return replace(trace, attributes={**trace.attributes, FREQUENCY: (share,)})

    def _counted(self, tenant: str, started_ns: int) -> Counter[tuple[object, ...]]:
        """How many of a tenant's traces of each group were stored before the window before the one
        of this time.
        """
        now_ns = self._clock_ns()
        window = min(started_ns, now_ns) // self._config.window
        too_old = now_ns // self._config.window - _MAX_WINDOWS
        if window <= too_old:
            return Counter()
        with self._lock:
            counted = self._counts.pop((tenant, window), None)
            if counted is None:
                before_ns = (window - 1) * self._config.window
                found = self._stored_before(tenant, before_ns, self._config.of)
                counted = Counter(group_of(x, self._config.by) for x in found)
                for old in [x for x in self._counts if x[1] <= too_old]:
                    del self._counts[old]
            self._counts[tenant, window] = counted
            if len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)
            return counted


def group_of(trace: AgentTrace, by: Iterable[str]) -> tuple[object, ...]:
    """What a trace has in common with those of its group."""
    facts: dict[str, object] = {
        "service": trace.service_name,
        "agent": trace.agent_name,
        "user": trace.user_id,
        "tools": tuple(dict.fromkeys(x.name for x in trace.tool_calls or ()))[:_MAX_TOOLS],
    }
    return tuple(facts[name] for name in by)
