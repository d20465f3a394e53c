"""How long a trace of a large recording waits for others of its turn."""

from collections.abc import Collection, Sequence

_JOIN_WITHIN_NS = 30 * 10**9
_MAX_WAITING_BYTES = 16 * 2**20
"""How long in the time of the recording, and in what was read at most."""


def may_be_joined(age_ns: int, read_bytes: int) -> bool:
    """Whether another trace of its turn may still come; both since the last of the trace was
    read.
    """
    return age_ns < _JOIN_WITHIN_NS and read_bytes < _MAX_WAITING_BYTES


def with_joined(waiting: Collection[str], groups: Sequence[Collection[str]]) -> set[str]:
    """The traces that wait, with those that are of one turn with one of these; `groups` are the
    traces of each turn.
    """
    found = set(waiting)
    while more := {
        name
        for group in groups
        if not found.isdisjoint(group)
        for name in group
        if name not in found
    }:
        found |= more
    return found
