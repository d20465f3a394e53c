"""The traces while those that belong together are found: which were joined so far, and who may be."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from spanscore.turns.stitch.fragment import TraceFragment

_MAX_PARTS = 1000
"""Traces that one turn may be spread over."""

MAX_ALIKE = 100
"""Traces that are compared where many look the same: the latest."""


class _Named(Protocol):
    """What names sessions and users: a trace, or a group of traces."""

    @property
    def sessions(self) -> frozenset[str]: ...

    @property
    def users(self) -> frozenset[str]: ...


class Group:
    """Traces that belong together, with the sessions and users that any of them names."""

    __slots__ = ("parts", "sessions", "users")

    def __init__(self, part: TraceFragment) -> None:
        self.parts = [part]
        self.sessions, self.users = part.sessions, part.users

    def take_in(self, other: "Group") -> None:
        """Make the parts of another group parts of this one."""
        self.parts += other.parts
        self.sessions, self.users = self.sessions | other.sessions, self.users | other.users


class Parts:
    """The traces while they come together: for each the group that it is in."""

    def __init__(self, found: Iterable[TraceFragment]) -> None:
        self.all = sorted(found, key=order)
        self._group_of = {x.trace_id: Group(x) for x in self.all}
        self.goes_on_at: dict[str, TraceFragment] = {}
        """By trace id, the trace that goes on where that one ends."""
        self.within: dict[str, str] = {}
        """By trace id, the span of the tool call that another trace asked this one by."""

    def group_of(self, trace_id: str) -> Group | None:
        """All that belongs together with a trace."""
        return self._group_of.get(trace_id)

    def join(self, one: TraceFragment, other: TraceFragment, *, across_sessions: bool = False) -> bool:
        """Make the groups of two traces one; False where they contradict each other, or are too many."""
        groups = {id(x): x for x in (self._group_of[one.trace_id], self._group_of[other.trace_id])}
        if len(groups) == 1:
            return True
        smaller, larger = sorted(groups.values(), key=lambda x: len(x.parts))
        may_be_one = agree_in_user if across_sessions else agree
        if len(smaller.parts) + len(larger.parts) > _MAX_PARTS or not may_be_one(smaller, larger):
            return False
        larger.take_in(smaller)
        for part in smaller.parts:
            self._group_of[part.trace_id] = larger
        return True

    def groups(self) -> list[Group]:
        """The groups as they are now, each once."""
        return list({id(x): x for x in self._group_of.values()}.values())

    def in_order(self, members: Iterable[TraceFragment]) -> list[TraceFragment]:
        """Traces in order of time; those that others asked come after these, whatever their clocks say."""
        placed = [replace(x, within=self.within[x.trace_id]) if x.trace_id in self.within else x for x in members]
        return sorted(placed, key=lambda x: (bool(x.within), order(x)))


def order(part: TraceFragment) -> tuple[int, int, str]:
    """Sorts by time; what started at once, as a clock of milliseconds has it, by how far the turn had come."""
    return part.started_ns, 0 if part.resumes_at is None else 1 + part.resumes_at.passed, part.trace_id


def agree(one: _Named, other: _Named) -> bool:
    """Whether two can be of one session and one user, as far as they say."""
    return _are_one(one.sessions, other.sessions) and agree_in_user(one, other)


def agree_in_user(one: _Named, other: _Named) -> bool:
    """Whether two can be of one user, as far as they say."""
    return _are_one(one.users, other.users)


def _are_one(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return not (mine and theirs and mine.isdisjoint(theirs))


def latest(parts: Sequence[TraceFragment], until_ns: int) -> Sequence[TraceFragment]:
    """Of traces in order of time, the last that had started by then."""
    end = bisect_right(parts, until_ns, key=lambda x: x.started_ns)
    return parts[max(0, end - MAX_ALIKE) : end]
