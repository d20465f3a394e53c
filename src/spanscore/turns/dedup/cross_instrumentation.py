"""Find the reports of one call that are side by side: those of a framework's callbacks, and those
of the SDK below them.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from spanscore.model.span import Span
from spanscore.model.step import Step
from spanscore.turns.basis.tree import Place, Tree
from spanscore.turns.dedup.identity import COUNTS, CallIdentity, Part, Verdict, agree, are_unique
from spanscore.turns.dedup.merge import differ

_MAX_REPORTS = 40
"""Reports with something in common that are compared with one."""

_MAX_SCOPES = 5
"""Instrumentations that are compared: the first by name."""

_MAX_ABOVE = 50
"""Agents in each other that are looked through."""

_MAX_SLACK_NS = 20 * 10**6
"""By how much the report of the inner layer may stick out: callbacks may be reported late, and to
the millisecond.
"""

_PARTS: tuple[Part, ...] = (
    "response_id",
    "text",
    "names",
    "requested_ids",
    "question",
    "system",
    "conversation",
    *COUNTS,
)


@dataclass(slots=True)
class _Report(ABC):
    """A step as a report of a call."""

    step: Step
    tree: Tree

    @property
    @abstractmethod
    def keys(self) -> Sequence[Hashable]:
        """The keys of which another report of that call has one at least."""

    @property
    def place(self) -> Place:
        """Where the step stands."""
        return self.tree.place(self.step)


ReportT = TypeVar("ReportT", bound=_Report)


@dataclass(slots=True)
class _Call(Generic[ReportT]):
    """A call with its reports, each of an instrumentation of its own, and when the last of them
    ends.
    """

    reports: list[ReportT] = field(default_factory=list)
    ended_ns: int = 0
    scopes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Model(_Report):
    """What a step reports of a model call."""

    identity: CallIdentity

    @property
    def keys(self) -> Sequence[Hashable]:
        identity = self.identity
        found: list[Hashable] = []
        if identity.requested_ids:
            found.append(("requested", identity.requested_ids[0]))
        elif identity.text:
            found.append(("text", identity.text))
        if identity.output_tokens:
            found.append(("tokens", identity.output_tokens))
        if identity.conversation:
            found.append(("conversation", len(identity.conversation), identity.conversation[-1]))
        return found


class _Tool(_Report):
    """A step as a report of a run of a tool."""

    __slots__ = ()

    @property
    def keys(self) -> Sequence[Hashable]:
        return [self.step.tool_name]


def model_reports(calls: Sequence[Step], tree: Tree) -> list[list[Step]]:
    """The model calls, each as its reports, the framework's first.

    Reports are of one call if they are of different instrumentations, one lies within the time of
    the other, no other agent is around one of them alone, and they agree in their output and in
    their input or tokens. Where one lacks its output, input or tokens are enough; so are equal
    unique ids of tool calls.
    """
    return _joined([_model(x, tree) for x in calls], _is_same_model)


def tool_reports(calls: Sequence[Step], tree: Tree) -> list[list[Step]]:
    """The runs of tools, each as its reports, the framework's first. The reports of a run have one
    tool, and one id or the same arguments.

    As with model calls, they are of different instrumentations, and one lies within the time of the
    other.
    """
    return _joined([_Tool(x, tree) for x in calls], _is_same_tool)


def _joined(
    reports: list[ReportT], is_same: Callable[[ReportT, ReportT], bool]
) -> list[list[Step]]:
    """The steps of each call: in order of time, a report is added to the nearest call that still
    runs and that another instrumentation reports, or it is a new call.

    `waiting` contains the calls that an instrumentation has not reported yet, by what reports have
    in common and by that instrumentation.
    """
    scopes = sorted({x.step.span.scope.name for x in reports})[:_MAX_SCOPES]
    waiting: dict[tuple[Hashable, str], deque[_Call[ReportT]]] = {}
    calls: list[_Call[ReportT]] = []
    for report in sorted(
        reports, key=lambda x: (x.step.span.start_ns, -x.step.span.end_ns, x.step.span.span_id)
    ):
        span, keys = report.step.span, report.keys
        near = {
            id(x): x for key in keys for x in _running(waiting.get((key, span.scope.name)), report)
        }
        alike = [
            x
            for x in islice(near.values(), _MAX_REPORTS)
            if any(is_same(y, report) for y in x.reports)
        ]
        call = min(alike, key=lambda x: _distance_ns(x.reports[0], report), default=None)
        if call is None:
            call = _Call[ReportT]()
            calls.append(call)
        call.reports.append(report)
        call.ended_ns = max(call.ended_ns, span.end_ns)
        call.scopes.add(span.scope.name)
        for scope in scopes:
            for key in keys if scope not in call.scopes else ():
                waiting.setdefault((key, scope), deque()).append(call)
    return [[x.step for x in sorted(call.reports, key=lambda x: -x.place.agents)] for call in calls]


def _running(waiting: deque[_Call[ReportT]] | None, report: ReportT) -> Iterator[_Call[ReportT]]:
    """The first of the `waiting` calls that still run and that the report's instrumentation has not
    reported; calls that have ended are removed from `waiting`.
    """
    if not waiting:
        return
    span = report.step.span
    near = [waiting.popleft() for _ in range(min(len(waiting), _MAX_REPORTS))]
    near = [x for x in near if x.ended_ns >= span.start_ns and span.scope.name not in x.scopes]
    waiting.extendleft(reversed(near))
    yield from near


def _distance_ns(one: _Report, other: _Report) -> int:
    return abs(one.step.span.start_ns - other.step.span.start_ns) + abs(
        one.step.span.end_ns - other.step.span.end_ns
    )


def _model(step: Step, tree: Tree) -> _Model:
    return _Model(step, tree, CallIdentity.of(step, *_PARTS))


def _is_same_model(outer: _Model, inner: _Model) -> bool:
    one, other = outer.identity, inner.identity
    if agree(one, other, "response_id", "text", "requested_ids", "names") is Verdict.DIFFERENT:
        return False
    if (
        one.requested_ids
        and one.requested_ids == other.requested_ids
        and are_unique(one.requested_ids)
    ):
        return True
    if not _is_inside(outer, inner) or agree(one, other, "question", "system") is Verdict.DIFFERENT:
        return False
    counts = [agree(one, other, count) for count in COUNTS]
    if Verdict.DIFFERENT in counts and Verdict.SAME not in counts:
        return False
    is_counted = (
        agree(one, other, "output_tokens") is Verdict.SAME and Verdict.DIFFERENT not in counts
    )
    given = agree(one, other, "conversation")
    if _have_same_answer(one, other):
        return given is Verdict.SAME or is_counted
    return _may_be_silent(outer, inner) and (
        given is Verdict.SAME or (is_counted and given is not Verdict.DIFFERENT)
    )


def _have_same_answer(one: CallIdentity, other: CallIdentity) -> bool:
    """Whether both record what was produced, where nothing of it differs."""
    if agree(one, other, "text", "requested_ids") is Verdict.SAME:
        return True
    has_ids_in_both = bool(one.requested_ids and other.requested_ids)
    return agree(one, other, "names") is Verdict.SAME and not has_ids_in_both


def _may_be_silent(outer: _Model, inner: _Model) -> bool:
    """Whether one of two reports records no output, and both may be of one model."""
    if outer.step.output is not None and inner.step.output is not None:
        return False
    return _may_be_one_model(outer.step.model, inner.step.model)


def _is_same_tool(outer: _Tool, inner: _Tool) -> bool:
    one, other = outer.step, inner.step
    if not _is_inside(outer, inner) or differ(one.call_id, other.call_id):
        return False
    if one.call_id and other.call_id:
        return True
    return one.arguments is not None and one.arguments == other.arguments


def _is_inside(one: _Report, other: _Report) -> bool:
    """Whether one of two reports lies in the time of the other, and both in the agents that one of
    them is in.
    """
    first, second = one.step.span, other.step.span
    if second.start_ns >= first.end_ns and second.start_ns > first.start_ns:
        return False
    if not (_is_within(first, second) or _is_within(second, first)):
        return False
    below, above = sorted((one, other), key=lambda x: -x.place.agents)
    return above.place.agent is None or any(x is above.place.agent for x in _agents(below))


def _is_within(outer: Span, inner: Span) -> bool:
    return (
        outer.start_ns - _MAX_SLACK_NS <= inner.start_ns
        and inner.end_ns <= outer.end_ns + _MAX_SLACK_NS
    )


def _agents(report: _Report) -> Iterator[Step]:
    """The agents around a report, the nearest first."""
    agent = report.place.agent
    for _ in range(_MAX_ABOVE):
        if agent is None:
            return
        yield agent
        agent = report.tree.place(agent).agent


def _may_be_one_model(one: str | None, other: str | None) -> bool:
    """Whether two names may be of one model, the longer with its version or provider.

    >>> (
    ...     _may_be_one_model("claude-haiku-latest", "anthropic/claude-haiku-20241022"),
    ...     _may_be_one_model("a-1", "b-1"),
    ... )
    (True, False)
    """
    if not one or not other:
        return True
    shorter, longer = sorted((one.removesuffix("-latest"), other.removesuffix("-latest")), key=len)
    return shorter in longer
