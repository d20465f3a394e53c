"""Groups of traces joined so far."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from spanscore.errors import shortened
from spanscore.model.span import changed
from spanscore.turns.stitch.fragment import Clue, Join, ReadTrace, Sign, TraceFragment

_MAX_PARTS = 1000
"""Traces that one turn may be spread over."""

MAX_ALIKE = 100
"""Traces that are compared where many look the same: the latest."""

_MAX_ID = 80
"""Characters of an id that are shown."""


class _Named(Protocol):
    """What names sessions and users: a trace, or a group of traces."""

    @property
    def sessions(self) -> frozenset[str]: ...

    @property
    def users(self) -> frozenset[str]: ...


class Group:
    """Traces that were joined, with the sessions and users that any of them names."""

    __slots__ = ("parts", "sessions", "users")

    def __init__(self, part: TraceFragment) -> None:
        self.parts = [part]
        self.sessions, self.users = part.sessions, part.users

    def take_in(self, other: "Group") -> None:
        """Add the parts of another group to this one."""
        self.parts += other.parts
        self.sessions, self.users = self.sessions | other.sessions, self.users | other.users


class Groups:
    """The traces while they are joined: for each the group that it is in.

    `all` are the traces in order of time, without those that only repeat others.
    """

    def __init__(self, found: Iterable[TraceFragment]) -> None:
        self.all = sorted(found, key=order)
        self._group_of = {part.trace_id: Group(part) for part in self.all}
        self._repeating: list[TraceFragment] = []
        self._joins = defaultdict[str, list[Join]](list)
        self.goes_on_at: dict[str, TraceFragment] = {}
        """By trace id, the trace that goes on where that one ends."""
        self.within: dict[str, str] = {}
        """By trace id, the span of the tool call by which another trace called this one."""

    def group_of(self, trace_id: str) -> Group | None:
        """The group that a trace is in."""
        return self._group_of.get(trace_id)

    def join(
        self,
        to: TraceFragment,
        joined: TraceFragment,
        *,
        reason: str,
        since: str,
        across_sessions: bool = False,
    ) -> bool:
        """Make two traces' groups one; False where they contradict each other, or are too many.

        `since` is a clause in which "it" is the trace `joined`, and "that trace" the other one.
        """
        pair = self._group_of[to.trace_id], self._group_of[joined.trace_id]
        if pair[0] is pair[1]:
            return True
        smaller, larger = sorted(pair, key=lambda x: len(x.parts))
        may_be_one = agree_in_user if across_sessions else agree
        is_too_large = len(smaller.parts) + len(larger.parts) > _MAX_PARTS
        if is_too_large or not may_be_one(smaller, larger):
            return False
        larger.take_in(smaller)
        for part in smaller.parts:
            self._group_of[part.trace_id] = larger
        self._note(Join(joined.trace_id, to.trace_id, reason, since))
        return True

    def set_aside(self, repeats: Mapping[str, str], *, reason: str, since: str) -> None:
        """Take out the traces that only repeat model calls; `repeats` maps the id of each to the
        trace that it repeats.

        They are no parts of a turn of their own, so no other reason looks at them.
        """
        aside = [other for other in self.all if other.trace_id in repeats]
        self.all = [other for other in self.all if other.trace_id not in repeats]
        for part in aside:
            repeated = repeats[part.trace_id]
            del self._group_of[part.trace_id]
            self._repeating.append(changed(part, repeats=repeated))
            self._note(Join(part.trace_id, repeated, reason, since))

    def groups(self) -> list[Group]:
        """The groups as they are now, each once."""
        return list({id(group): group for group in self._group_of.values()}.values())

    def result(self) -> list[list[TraceFragment]]:
        """Each group in order, with why each trace was joined; those that repeat come last."""
        found = {id(other): self._in_order(other.parts) for other in self.groups()}
        for part in self._repeating:
            group = self._group_of[part.repeats or ""]
            found[id(group)].append(changed(part, joins=tuple(self._joins[part.trace_id])))
        return sorted(found.values(), key=lambda x: order(x[0]))

    def _in_order(self, members: Iterable[TraceFragment]) -> list[TraceFragment]:
        """The parts in order of time; those that others called come after these, whatever their
        clocks show.
        """
        placed = map(self._as_joined, members)
        return sorted(placed, key=lambda x: (bool(x.within), order(x)))

    def _as_joined(self, part: TraceFragment) -> TraceFragment:
        within, joins = self.within.get(part.trace_id, ""), self._joins.get(part.trace_id)
        return changed(part, within=within, joins=tuple(joins or ())) if within or joins else part

    def _note(self, join: Join) -> None:
        self._joins[join.trace_id].append(join)


def order(part: TraceFragment) -> tuple[int, int, str]:
    """The key that sorts traces by time, and within one millisecond by how far their turn has
    come.
    """
    passed = 0 if part.resumes_at is None else 1 + part.resumes_at.passed
    return part.started_ns, passed, part.trace_id


def agree(one: _Named, other: _Named) -> bool:
    """Whether two can be of one session and one user, as far as they name these."""
    return _are_one(one.sessions, other.sessions) and agree_in_user(one, other)


def agree_in_user(one: _Named, other: _Named) -> bool:
    """Whether two can be of one user, as far as they name one."""
    return _are_one(one.users, other.users)


def _are_one(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return not (mine and theirs and mine.isdisjoint(theirs))


def latest(parts: Sequence[TraceFragment], until_ns: int) -> Sequence[TraceFragment]:
    """The last trace that had started by then, of traces in order of time."""
    end = bisect_right(parts, until_ns, key=lambda x: x.started_ns)
    return parts[max(0, end - MAX_ALIKE) : end]


def shown(identity: str) -> str:
    """An id as it is shown to people."""
    return shortened(identity, _MAX_ID)


class Reason(ABC):
    """One reason to join traces into one turn.

    Its name is that of its module, which is also its key in the configuration. A trace for which
    some reason has a clue becomes a `TraceFragment`. Two fragments are compared where one offers a
    key that the other one seeks; then each reason joins those that it is sure of.
    """

    name: ClassVar[str]
    """The name of its module; set where it is found."""

    words: ClassVar[str]
    """When it joins traces, as a clause for the documentation."""

    after: ClassVar[tuple[str, ...]] = ()
    """The reasons that join before it."""

    signs: ClassVar[frozenset[Sign] | None] = None
    """The signs of which a trace has one that may have a clue by itself.

    A reason without them looks at every trace, and gives the same result.
    """

    @abstractmethod
    def clue(self, trace: ReadTrace) -> Clue | None:
        """What this reason finds in the trace; None where it finds nothing."""

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The keys by which other traces look for this one."""
        del part
        return ()

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The keys by which this trace looks for others."""
        del part
        return ()

    @abstractmethod
    def join(self, groups: Groups) -> None:
        """Join those traces that this reason shows to be of one turn, where it leaves no choice."""
