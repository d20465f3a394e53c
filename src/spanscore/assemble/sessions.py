"""Decide when a session has fallen quiet: pure, with the time passed in."""

from collections import OrderedDict

from spanscore.assemble.config import Config


class Sessions:
    """Open sessions in the order in which they were last heard of. Not thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last_ns: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last_ns)

    def push(self, session_id: str, now_ns: int) -> None:
        """An agent trace of this session was rebuilt."""
        self._last_ns.pop(session_id, None)
        self._last_ns[session_id] = now_ns

    def cut(self, now_ns: int) -> list[str]:
        """The sessions that are quiet by now, or too many; each is handed out once for each time it
        goes on.
        """
        quiet_since_ns = now_ns - self._config.session_idle_after
        ready = []
        while self._last_ns and (
            next(iter(self._last_ns.values())) <= quiet_since_ns
            or len(self._last_ns) > self._config.max_open_sessions
        ):
            ready.append(self._last_ns.popitem(last=False)[0])
        return ready
