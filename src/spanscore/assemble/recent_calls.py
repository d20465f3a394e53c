"""The traces that were scored lately, by the ids of their model calls: a later trace may report the
same calls.
"""

from collections import OrderedDict
from collections.abc import Iterable

from spanscore.assemble.config import Config

MAX_IDS = 50_000
"""Ids that are remembered, some 10 MB: above it the oldest are forgotten."""

_MAX_TRACES = 4
"""Traces with one id that are remembered, the latest: test servers give every answer the same
one.
"""


class RecentCalls:
    """Which traces have a model call with an id, as long as late spans may open them.

    Pure: the time is passed in.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._max_ids = MAX_IDS
        self._traces: OrderedDict[str, tuple[int, tuple[str, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._traces)

    def limit(self, max_ids: int) -> None:
        """Remember at most so many from now on."""
        self._max_ids = max_ids
        while len(self._traces) > max_ids:
            self._traces.popitem(last=False)

    def add(self, ids_of_calls: Iterable[str], trace_id: str, now_ns: int) -> None:
        """Remember the ids of a trace's model calls."""
        for call_id in ids_of_calls:
            _, known = self._traces.pop(call_id, (0, ()))
            others = tuple(other for other in known if other != trace_id)
            self._traces[call_id] = now_ns, (*others[1 - _MAX_TRACES :], trace_id)
        self._forget_old(now_ns)

    def find(self, ids_of_calls: Iterable[str]) -> list[str]:
        """The traces that have one of these ids, the latest of each last."""
        found: dict[str, None] = {}
        for call_id in ids_of_calls:
            _, trace_ids = self._traces.get(call_id, (0, ()))
            found.update(dict.fromkeys(trace_ids))
        return list(found)

    def _forget_old(self, now_ns: int) -> None:
        """Forget the ids of traces that late spans cannot open any more, and the oldest of too
        many.
        """
        oldest_ns = now_ns - self._config.late_window
        while self._traces:
            added_ns, _ = next(iter(self._traces.values()))
            if len(self._traces) <= self._max_ids and added_ns > oldest_ns:
                return
            self._traces.popitem(last=False)
