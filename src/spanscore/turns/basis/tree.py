"""The tree of a trace's steps."""

from typing import TypeAlias

from spanscore.model.span import Span, record
from spanscore.model.step import Reading, Step


@record()
class Place:
    """What lies above a span. Each is the nearest one, or None; `agents` counts all agents above.

    `model` and `tool` are only set where no agent lies between; `outer` is the nearest step that is
    an agent, workflow or model call. `in_tool`: a tool lies above at all; `session` is the one
    named nearest above.
    """

    depth: int = 0
    agents: int = 0
    agent: Step | None = None
    model: Step | None = None
    tool: Step | None = None
    outer: Step | None = None
    in_tool: bool = False
    session: str | None = None


_TOP = Place()


class Tree:
    """The spans of one trace, or of those of one turn, by their parents.

    `root` and `top` are the first trace's.
    """

    __slots__ = ("_below", "_places", "_spans", "_steps", "_tops", "root", "top")

    def __init__(self, reading: Reading) -> None:
        self._spans = {x.span_id: x for x in reading.spans}
        self._steps = {x.span.span_id: x for x in reading.steps}
        self._places: dict[str, Place] = {}
        self._below: dict[str, Place] = {}
        for span in reading.spans:
            if span.span_id not in self._places:
                above = self._below.get(span.parent_span_id)
                if above is None:
                    self._settle(span)
                else:  # a sister of one that has its place, as most are
                    self._places[span.span_id] = above
        self._tops = [x for x in reading.spans if self._places[x.span_id] is _TOP]
        first = self._tops[0].trace_id if self._tops else ""
        self.root: Span | None = self.root_of(first)
        self.top: Span | None = self.root or next(iter(self._tops), None)

    def place(self, step: Step) -> Place:
        """Where `step` stands."""
        return self._places[step.span.span_id]

    def span(self, span_id: str) -> Span | None:
        """The span with this id; None where it has not arrived."""
        return self._spans.get(span_id)

    def parent(self, span: Span) -> Span | None:
        """The parent of `span`; None where it has none, or where the parent has not arrived."""
        return self._spans.get(span.parent_span_id)

    def root_of(self, trace_id: str) -> Span | None:
        """The span without a parent of one of the traces."""
        return next(
            (x for x in self._tops if not x.parent_span_id and x.trace_id == trace_id), None
        )

    def opening_id(self, trace_id: str) -> str:
        """The id of the span that opens a trace, which stays the same when that span arrives last.

        The topmost span that has arrived names its parent even where the parent has not arrived.
        """
        top = self.root_of(trace_id) or next(
            (x for x in self._tops if x.trace_id == trace_id), None
        )
        return "" if top is None else top.parent_span_id or top.span_id

    def _settle(self, span: Span) -> None:
        """Find the place of a span and of all above it.

        Of a cycle, the span that is reached last is the top.
        """
        path, seen = [span], {span.span_id}
        parent = self._spans.get(span.parent_span_id)
        while (
            parent is not None and parent.span_id not in self._places and parent.span_id not in seen
        ):
            path.append(parent)
            seen.add(parent.span_id)
            parent = self._spans.get(parent.parent_span_id)
        if parent is None or parent.span_id not in self._places:
            self._places[path.pop().span_id] = _TOP
        for below in reversed(path):
            self._places[below.span_id] = self._below.get(below.parent_span_id) or self._under(
                below.parent_span_id
            )

    def _under(self, parent_id: str) -> Place:
        """The place of all children of a span whose own place is known."""
        above, step = self._places[parent_id], self._steps.get(parent_id)
        depth, agents, agent, in_tool = above.depth + 1, above.agents, above.agent, above.in_tool
        session = above.session if step is None else step.session_id or above.session
        kind = None if step is None else step.kind
        if kind == "agent":
            place = Place(depth, agents + 1, step, None, None, step, in_tool, session)
        elif kind == "model":
            place = Place(depth, agents, agent, step, above.tool, step, in_tool, session)
        elif kind == "tool":
            place = Place(
                depth, agents, agent, None, step, above.outer, in_tool=True, session=session
            )
        elif kind == "workflow":
            place = Place(depth, agents, agent, above.model, above.tool, step, in_tool, session)
        else:
            place = Place(
                depth, agents, agent, above.model, above.tool, above.outer, in_tool, session
            )
        self._below[parent_id] = place
        return place


MAX_SKEW_NS = 2 * 10**9
"""By how much the clocks of two that work on one turn may differ."""

Times: TypeAlias = tuple[int, int]
"""When something started and ended, in Unix nanoseconds."""


def may_lie_in(inner: Times, outer: Times, skew_ns: int = MAX_SKEW_NS) -> bool:
    """Whether one thing happened within another, as far as clocks agree: they do on how long each
    took.
    """
    return (
        outer[0] - skew_ns <= inner[0]
        and inner[1] <= outer[1] + skew_ns
        and inner[1] - inner[0] <= outer[1] - outer[0]
    )
