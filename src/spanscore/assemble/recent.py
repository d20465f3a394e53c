"""The traces that were dealt with lately, by the ids of their model calls: one that comes later may repeat these."""

from collections import OrderedDict
from collections.abc import Iterable

from spanscore.assemble.config import Config

MAX_IDS = 50_000
"""Ids that are remembered, some 10 MB: above it those heard of longest ago are forgotten."""

_MAX_TRACES = 4
"""Traces with one id that are remembered, the latest: test servers give every answer the same one."""


class Recent:
    """Which traces have a model call with an id, as long as late spans may open them. Pure: the time is passed in."""

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

    def add(self, ids: Iterable[str], trace_id: str, now_ns: int) -> None:
        """Remember the ids of a trace's model calls."""
        for identity in ids:
            _, known = self._traces.pop(identity, (0, ()))
            others = tuple(x for x in known if x != trace_id)
            self._traces[identity] = now_ns, (*others[1 - _MAX_TRACES :], trace_id)
        oldest_ns = now_ns - self._config.late_window
        while self._traces and (len(self._traces) > self._max_ids or next(iter(self._traces.values()))[0] <= oldest_ns):
            self._traces.popitem(last=False)

    def find(self, ids: Iterable[str]) -> list[str]:
        """The traces that have one of these ids, the latest of each last."""
        return list(dict.fromkeys(x for identity in ids for x in self._traces.get(identity, (0, ()))[1]))
