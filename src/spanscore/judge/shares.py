"""What tenants have spent of one limit, and what of the limit is kept for each."""

from collections import defaultdict
from typing import Final

_MAX_TENANTS: Final = 1000
_OTHERS: Final = "\n"  # no tenant has this name


class Shares:
    """What tenants spend of one limit in one window.

    An equal share is kept for each tenant that spends in this window or has spent in the one
    before; what no other tenant's share needs is for whoever asks first. Past a thousand tenants
    the rest are counted as one.
    """

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)

    def turn(self) -> None:
        """Begin a new window, in which a share is kept for whoever has spent in the one that
        ends.
        """
        self._spent = defaultdict(
            float, {name: 0.0 for name, spent in self._spent.items() if spent > 0}
        )

    def add(self, tenant: str, amount: float) -> None:
        """A tenant has spent so much more, or less where it is negative."""
        self._spent[self._name(tenant)] += amount

    def spent(self, tenant: str) -> float:
        """What a tenant has spent."""
        return self._spent.get(self._name(tenant), 0.0)

    def kept_for_others(self, tenant: str, limit: float) -> float:
        """What of a limit others may still spend of their shares.

        >>> shares = Shares()
        >>> shares.add("a", 70.0)
        >>> shares.kept_for_others("a", 100.0), shares.kept_for_others("b", 100.0)
        (0.0, 0.0)
        >>> shares.turn()
        >>> shares.add("b", 10.0)
        >>> shares.kept_for_others("b", 100.0), shares.kept_for_others("a", 100.0)
        (50.0, 40.0)
        """
        share = self.share(tenant, limit)
        others = (spent for name, spent in self._spent.items() if name != self._name(tenant))
        return sum((max(0.0, share - spent) for spent in others), 0.0)

    def share(self, tenant: str, limit: float) -> float:
        """A tenant's equal share of a limit.

        >>> shares = Shares()
        >>> shares.add("a", 70.0)
        >>> shares.share("a", 100.0), shares.share("b", 100.0)
        (100.0, 50.0)
        """
        return limit / len(self._spent.keys() | {self._name(tenant)})

    def frees(self, spender: str, tenant: str, limit: float) -> bool:
        """Whether what a spender gets back may be spent by a tenant, and is not kept for the
        spender.

        >>> shares = Shares()
        >>> shares.add("a", 70.0)
        >>> (
        ...     shares.frees("a", "b", 100.0),
        ...     shares.frees("b", "a", 100.0),
        ...     shares.frees("b", "b", 100.0),
        ... )
        (True, False, True)
        """
        return self._name(spender) == self._name(tenant) or self.spent(spender) > self.share(
            tenant, limit
        )

    def _name(self, tenant: str) -> str:
        return tenant if tenant in self._spent or len(self._spent) < _MAX_TENANTS else _OTHERS
