"""A trace that may be part of a turn together with other traces, and the clues to that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from spanscore.turns.basis.tool_boundary import UNRECORDED, ToolBoundary, Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """What one reason to join found in a trace; each reason adds the fields that it needs."""

    is_evidence: bool = True
    """Whether it makes the trace a fragment though no other trace refers to it."""

    is_open: bool = False
    """Whether something of the trace's turn is missing in the trace."""

    must_wait: bool = False
    """Whether the trace waits for others even if nothing is missing in it."""

    trace_ids: frozenset[str] = frozenset()
    """The other traces that it refers to by their ids."""

    model_call_ids: tuple[str, ...] = ()
    """The ids of model calls by which it looks for other reports of the same calls."""


ClueT = TypeVar("ClueT", bound=Clue)


class Join(NamedTuple):
    """That a trace was joined to another one, by the name of the reason; `since` is a clause.

    In the clause "it" is the trace that was joined, and "that trace" the other one.
    """

    trace_id: str
    to: str
    reason: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFragment:
    """A trace that may be a part of a turn of which other traces have parts too.

    Beside the clues, by the class of each, it has what several reasons compare. Texts are cut to
    10,000 characters; times are Unix ns.
    """

    trace_id: str
    started_ns: int
    ended_ns: int
    sessions: frozenset[str]
    users: frozenset[str]

    has_turn: bool
    """Whether an agent trace could be built of it."""

    question: str | None
    """The user's question."""

    answer: str | None
    """The final output."""

    pending_at: ToolBoundary | None
    """Where its last model call requested tools whose results the trace does not contain."""

    resumes_at: ToolBoundary | None
    """The results that its first model call begins with: another trace contains their requests."""

    clues: Mapping[type[Clue], Clue]

    offers: frozenset[str] = frozenset()
    """The keys by which other parts of its turn look for it."""

    seeks: frozenset[str] = frozenset()
    """The keys by which it looks for other parts."""

    must_wait: bool = False
    """Whether it waits for others though it does not itself show that there are any."""

    within: str = ""
    """In a group, the span of the tool call that called this trace's agent."""

    repeats: str | None = None
    """In a group, the trace whose model calls this one only repeats."""

    joins: tuple[Join, ...] = ()
    """In a group, why this trace was joined to others."""

    def clue(self, kind: type[ClueT]) -> ClueT | None:
        """The clue of this class, None where the trace has none."""
        found = self.clues.get(kind)
        return found if isinstance(found, kind) else None

    @property
    def unanswered_calls(self) -> tuple[Wanted, ...]:
        """The calls that it requested and whose results it does not contain."""
        return () if self.pending_at is None else self.pending_at.calls or (UNRECORDED,)

    @property
    def is_open(self) -> bool:
        """Whether something of its turn is missing in it."""
        return any(clue.is_open for clue in self.clues.values())

    @property
    def is_fragment(self) -> bool:
        """Whether the trace shows by itself that other traces contain parts of its turn."""
        return self.must_wait or any(clue.is_open or clue.must_wait for clue in self.clues.values())

    @property
    def links(self) -> frozenset[str]:
        """The traces that it refers to by their ids, which may have been dealt with already."""
        return frozenset().union(*(clue.trace_ids for clue in self.clues.values()))

    @property
    def repeatable(self) -> list[str]:
        """The ids of model calls by which it looks for other reports of the same calls."""
        return [identity for clue in self.clues.values() for identity in clue.model_call_ids]
