"""A trace that may be part of a turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from spanscore.model.span import STATUS_ERROR, record
from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace
from spanscore.threads import cached_property
from spanscore.turns.basis import tool_boundary
from spanscore.turns.basis.conversation import Tree
from spanscore.turns.basis.tool_boundary import UNRECORDED, ToolBoundary, Wanted, latest, wanted
from spanscore.turns.facts.source import TurnSteps
from spanscore.turns.split import split
from spanscore.turns.stitch import gateway


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


@record(kw_only=True)
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


_MAX_NAMED = 20
"""Sessions, or users, that a trace may name to be found by them: of more none counts."""

_MAX_NAME = 1000
"""Characters of the name of a session or user by which parts of a turn are found."""

_MAX_TEXT = 10_000
"""Characters of a question or answer that are compared with those of other traces."""


Sign: TypeAlias = Literal[
    "calls alone",
    "half a call",
    "links",
    "logs alone",
    "no answer",
    "no content",
    "no model call",
    "no turn",
    "one call",
    "pending",
    "resumed",
]
"""What `ReadTrace.signs` gives."""


class ReadTrace:
    """One trace with at least one step; `traces` are its turns.

    For nearly every trace only its `signs` are needed.
    """

    def __init__(self, reading: Reading, traces: Sequence[AgentTrace]) -> None:
        self.reading = reading
        self.traces = traces
        self.steps = reading.steps
        self.models = [step for step in reading.steps if step.kind == "model"]

    @property
    def is_recorded(self) -> bool:
        """Whether its spans were sent; False where they stand for log records."""
        return self.reading.spans[0].recorded

    @property
    def lacks_answer(self) -> bool:
        """Whether it has turns, and the last one has no answer."""
        return bool(self.traces) and self.traces[-1].final_output is None

    @cached_property
    def has_session(self) -> bool:
        """Whether any of its steps names a session."""
        return any(step.session_id for step in self.steps)

    @cached_property
    def may_be_pending(self) -> bool:
        """Whether the trace may end in requested tool calls. This is a quick look: False is
        certain, True may be wrong.
        """
        if not self.models:
            return False
        if self.lacks_answer and any(step.output and step.output[-1].calls for step in self.models):
            return True
        return any(step.runs_agent for step in self.steps) and any(map(_is_unfinished, self.steps))

    @property
    def lacks_content(self) -> bool:
        """Whether the outermost step is an agent's or a workflow's that records no content itself,
        but lies around a model call with input; or whether there is nothing but a model call.
        """
        top = self.steps[0]
        if top.session_id is None or top.span.parent_span_id:
            return False
        if len(self.steps) == 1 and top.kind == "model":
            return True
        if top.kind not in {"agent", "workflow"}:
            return False
        content = (top.input, top.output, top.input_text, top.output_text)
        return all(x is None for x in content) and any(x.input for x in self.models)

    def signs(self) -> Iterator[Sign]:
        """What shows that it may be a part of a turn; nothing for nearly every trace.

        - calls alone: model calls and nothing else
        - half a call: one model call that records only its input, or only its output
        - links: a span links to another
        - logs alone: made of log records
        - no answer: a session whose turn has no answer
        - no content: see `lacks_content`
        - no model call: a session without one
        - no turn: neither that nor a model call
        - one call: one model call, and no step that would record what it requested
        - pending: see `may_be_pending`
        - resumed: its first model call with input was given results last
        """
        if not self.is_recorded:
            yield "logs alone"
        if any(map(_LINKS, self.reading.spans)):
            yield "links"
        if self.traces and gateway.is_bare(self.reading):
            yield "calls alone"
        if self.models:
            yield from self._signs_of_calls()
        elif not self.traces:
            yield "no turn"
        if not self.models and self.has_session:
            yield "no model call"

    def _signs_of_calls(self) -> Iterator[Sign]:
        if self.may_be_pending:
            yield "pending"
        if self.lacks_content:
            yield "no content"
        if self.lacks_answer and self.traces[-1].session_id:
            yield "no answer"
        if len(self.models) == 1:
            if is_half(self.models[0]):
                yield "half a call"
            if not any(x.kind in {"agent", "tool"} for x in self.steps):
                yield "one call"
        # of a call that is reported twice, one report may have no input
        given = next((x.input for x in self.models if x.input), ())
        if given and given[-1].results:
            yield "resumed"

    @cached_property
    def tree(self) -> Tree:
        """Which of its steps are inside which others."""
        return Tree(self.reading)

    @cached_property
    def _turns(self) -> Sequence[tuple[Step | None, Sequence[Step]]]:
        return split(self.steps, self.tree)

    @cached_property
    def first(self) -> TurnSteps:
        """The steps of its first turn."""
        return TurnSteps(self._turns[0][1], self.tree)

    @cached_property
    def last(self) -> TurnSteps:
        """The steps of its last turn."""
        if len(self._turns) == 1:
            return self.first
        return TurnSteps(self._turns[-1][1], self.tree)

    @cached_property
    def sessions(self) -> frozenset[str]:
        """The sessions that its steps name; none where they are too many."""
        return _named(step.session_id for step in self.steps)

    @cached_property
    def users(self) -> frozenset[str]:
        """The users that its steps name; none where they are too many."""
        return _named(step.user_id for step in self.steps)

    @property
    def lacks_model_calls(self) -> bool:
        """Whether its first turn has no model call: these may be in other traces."""
        return bool(self.traces) and not self.first.models

    @property
    def is_model_call_alone(self) -> bool:
        """Whether its last turn is one model call and nothing that would record requested calls."""
        return len(self.last.models) == 1 and not self.last.agents and not self.last.tools

    @cached_property
    def pending_at(self) -> ToolBoundary | None:
        """Where its last model call requested tools whose results are missing."""
        turn = self.last
        unfinished = [step for step in turn.tools if _is_unfinished(step)]
        if not self.lacks_answer:
            calls = [wanted(step.call_id, step.tool_name, step.arguments) for step in unfinished]
            return ToolBoundary(None, latest(calls), "", 0) if calls else None
        pending = tool_boundary.pending_after(turn.main[-1]) if turn.main else None
        if pending is not None or not self.is_model_call_alone:
            return pending
        model = turn.models[0]
        if not tool_boundary.requests_tools(model):
            return None
        return tool_boundary.maybe_pending_after(model)

    @cached_property
    def resumes_at(self) -> ToolBoundary | None:
        """The results that its first model call begins with."""
        return tool_boundary.resumed_by(self.first.main[0]) if self.first.main else None

    @property
    def question(self) -> str | None:
        """The question of its first turn."""
        return _cut(self.traces[0].user_input) if self.traces else None

    @property
    def answer(self) -> str | None:
        """What its last turn answered."""
        return _cut(self.traces[-1].final_output) if self.traces else None


_LINKS = attrgetter("links")


def is_half(model: Step) -> bool:
    """Whether a model call records only its input, or only its output."""
    if not model.response_id or (model.input is not None and model.output is not None):
        return False
    is_finished = model.output_tokens is not None or bool(model.finish_reasons)
    return not is_finished and model.span.status_code != STATUS_ERROR


def _is_unfinished(step: Step) -> bool:
    """Whether a tool runs an agent and has returned nothing yet: the agent may run in the
    background.
    """
    return bool(step.runs_agent and step.kind == "tool" and step.call_id and not step.has_result)


def _named(names: Iterable[str | None]) -> frozenset[str]:
    found = {name for name in names if name and len(name) <= _MAX_NAME}
    return frozenset(found) if len(found) <= _MAX_NAMED else frozenset()


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_TEXT]
