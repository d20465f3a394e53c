"""Whose evaluation run begins next: that of the tenant with the fewest, so that none waits for all
runs of another.
"""

from collections.abc import Mapping, Sequence

from spanscore.store.runs import OpenRun


class TurnTaking:
    """Tenants with equally many active runs take turns; of one tenant the oldest run is first."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}
        self._taken = 0

    def next(self, waiting: Sequence[OpenRun], active: Mapping[str, int]) -> OpenRun:
        """One of the runs that wait, at least one and the oldest first; `active` counts by tenant
        those worked on.

        >>> runs = [
        ...     OpenRun("1", "PENDING", "a"),
        ...     OpenRun("2", "PENDING", "a"),
        ...     OpenRun("3", "PENDING", "b"),
        ... ]
        >>> TurnTaking().next(runs, {"a": 1}).id
        '3'
        """
        known = {x.tenant for x in waiting}.union(active)
        self._turns = {tenant: turn for tenant, turn in self._turns.items() if tenant in known}
        chosen = min(waiting, key=lambda x: (active.get(x.tenant, 0), self._turns.get(x.tenant, 0)))
        self._taken += 1
        self._turns[chosen.tenant] = self._taken
        return chosen
