"""Dialects that other distributions bring, found by the entry point group `spanscore.dialects`."""

from collections.abc import Iterable, Iterator

from spanscore import discovery
from spanscore.dialects.dialect import Dialect
from spanscore.errors import ConfigError

GROUP = "spanscore.dialects"


def installed(own: Iterable[Dialect]) -> Iterator[Dialect]:
    """The dialects of installed distributions, by the names of their entry points.

    Raises ConfigError where an entry point gives no dialect, or one whose name is taken.
    """
    taken = {x.name for x in own}
    for name, item in discovery.registered(GROUP):
        if not isinstance(item, Dialect):
            raise ConfigError(f"entry point {name!r} of group {GROUP!r} is no dialect: {item!r}")
        if item.name in taken:
            raise ConfigError(f"entry point {name!r} of group {GROUP!r}: there is a dialect {item.name!r} already")
        taken.add(item.name)
        yield item
