"""Dialects and quirks that other distributions bring, found by the entry point group
`spanscore.dialects`.
"""

from collections.abc import Sequence

from spanscore import discovery
from spanscore.dialects.dialect import Dialect
from spanscore.dialects.quirk import Quirk
from spanscore.errors import ConfigError

GROUP = "spanscore.dialects"


def installed(own: Sequence[Dialect]) -> tuple[tuple[Dialect, ...], tuple[Quirk, ...]]:
    """The dialects and quirks of installed distributions, each by the names of their entry points.

    Raises ConfigError where an entry point gives neither, a dialect whose name is taken, or a quirk
    in the spans of a dialect that is not there.
    """
    dialects: list[Dialect] = []
    quirks: list[tuple[str, Quirk]] = []
    taken = {x.name for x in own}
    for name, item in discovery.registered(GROUP):
        if isinstance(item, Quirk):
            quirks.append((name, item))
        elif not isinstance(item, Dialect):
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r} is neither a Dialect nor a Quirk of "
                f"spanscore.dialects.reading: {item!r}; name one, or uninstall what brings it"
            )
        elif item.name in taken:
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r}: there is a dialect {item.name!r}"
                " already; give it another name, or uninstall what brings it"
            )
        else:
            taken.add(item.name)
            dialects.append(item)
    for name, quirk in quirks:
        if quirk.under not in taken:
            raise ConfigError(
                f"entry point {name!r} of group {GROUP!r}: there is no dialect {quirk.under!r} that"
                f" the quirk {quirk.name!r} could be under; there are {', '.join(sorted(taken))}"
            )
    return tuple(dialects), tuple(x for _, x in quirks)
