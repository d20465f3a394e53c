"""Tools on offer: did a call fail since no such tool was offered?"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from spanscore.metrics.check._check import Check, Evidence, Finding, not_applicable, not_recorded
from spanscore.model.score import Skip
from spanscore.model.tool_names import READING_VERBS, bare, effect, name_words

_MAX_NAME_CHARS = 200
_MAX_PREFIXES = 8
_SERVERS = frozenset(("api", "connector", "mcp", "plugin", "server", "srv", "toolkit"))
"""Words by which a prefix says that it is the name of a server."""


@dataclass(frozen=True)
class ToolsOnOffer(Check):
    """Whether each failed call is of a tool that the trace says was on offer.

    A server or namespace in front of a name makes no other tool, nor does case. Before `.`, `/`,
    `:` and `__` anything is a namespace; before `_` and `-` it is what several tools on offer share
    (`files` in `files_read` and `files_write`), or what is called a server (`files-server`), but no
    verb. A call that returned is not looked at: it had its tool, whatever list the trace recorded
    (tools of sub-agents and those that a provider runs are often in none).

    >>> ToolsOnOffer.needs
    ('tool_calls',)
    """

    name: ClassVar[str] = "check.tools_on_offer"
    summary: ClassVar[str] = "Was each failed call of a tool that the agent had?"
    needs: ClassVar[tuple[str, ...]] = ("tool_calls",)
    fine: ClassVar[str] = "Every failed call was of a tool on offer."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        failed = [
            (place, call) for place, call in enumerate(evidence.calls) if call.error is not None
        ]
        if not failed:
            return not_applicable("No call failed.")
        if not evidence.offered:
            return not_recorded("which tools were on offer")
        known = {bare(tool.name) for tool in evidence.offered}
        if _SERVER in known:
            return not_recorded("which tools the MCP server offered")
        servers = _servers(known)
        accepted = {name for offered in known for name in _without_server(offered, servers)}
        return [
            Finding.of_call(place, call, "no such tool was on offer")
            for place, call in failed
            if accepted.isdisjoint(_without_server(bare(call.name), servers))
        ]


_SERVER = "mcp"
"""What stands on offer for all tools of an MCP server that the provider calls."""


def _servers(names: Iterable[str]) -> set[str]:
    """What stands before several of the names, as a server's name does."""
    times = Counter(prefix for name in names for prefix, _ in _divided(name))
    return {prefix for prefix, count in times.items() if count > 1 and not _has_verb(prefix)}


def _without_server(name: str, servers: set[str]) -> Iterator[str]:
    """A tool's name, and the same without a server before it."""
    yield name
    for prefix, rest in _divided(name):
        words = name_words(prefix)
        if prefix in servers or not (_SERVERS.isdisjoint(words) or _has_verb(prefix)):
            yield rest


def _divided(name: str) -> Iterator[tuple[str, str]]:
    """A tool's name divided at each of its first `_` and `-`."""
    name = name[-_MAX_NAME_CHARS:]
    places = (place for place, sign in enumerate(name) if sign in "_-")
    for place in islice(places, _MAX_PREFIXES):
        if name[:place] and name[place + 1 :]:
            yield name[:place], name[place + 1 :]


def _has_verb(prefix: str) -> bool:
    """Whether what stands before a name is the deed of a tool, as in `get_user`."""
    return effect(prefix) in {"changes", "works"} or not READING_VERBS.isdisjoint(
        name_words(prefix)
    )
