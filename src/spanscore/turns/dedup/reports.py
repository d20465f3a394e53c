"""Several instrumentations' reports of one call: found and merged."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import attrgetter
from typing import Generic, TypeVar

from spanscore.model.span import Span
from spanscore.model.step import Step
from spanscore.turns.basis.conversation import Place, Tree
from spanscore.turns.dedup.identity import (
    COUNTS,
    CallIdentity,
    Part,
    Verdict,
    agree,
    are_unique,
    differ,
    merged,
    merged_tools,
)

_MAX_OF_RESPONSE = 20
"""Reports with one response id that are compared with one: the latest."""

_BY_START = attrgetter("span.start_ns", "span.span_id")


def model_calls(steps: Iterable[Step], tree: Tree) -> list[Step]:
    """The model calls among `steps`, each once, in order of time.

    A call reported inside another one is the same call. Where two or more calls that record an
    answer lie inside one, the outer is a wrapper that only sums up, and they are the calls. Reports
    side by side are the same call when they share their response id, overlap in time and agree, or
    the later one only fetches the answer; and where several instrumentations report, when they
    agree without such an id.
    """
    calls = [x for x in steps if x.kind == "model"]
    inner: defaultdict[str, list[Step]] = defaultdict(list)
    for step in calls:
        above = tree.place(step).model
        if above is not None:
            inner[above.span.span_id].append(step)
    if inner:
        calls = _without_nesting(calls, inner, tree)
    responses = [x.response_id for x in calls if x.response_id]
    if len(set(responses)) < len(responses):
        calls = _without_siblings(calls, tree)
    if len({x.span.scope.name for x in calls}) > 1:
        calls = [reduce(merged, reports) for reports in model_reports(calls, tree)]
    return sorted(calls, key=lambda x: (x.span.start_ns, len(x.input or ()), x.span.span_id))


def counted(calls: Iterable[Step], tree: Tree) -> list[Step]:
    """The steps whose tokens are a turn's: its model calls, and steps that sum up model calls
    without tokens.
    """
    found = list(calls)
    summing: dict[str, Step] = {}
    with_tokens: set[str] = set()
    for step in found:
        has_tokens = step.input_tokens is not None or step.output_tokens is not None
        above = tree.place(step).model
        while above is not None:
            span_id = above.span.span_id
            if span_id in with_tokens or (span_id in summing and not has_tokens):
                break  # all above it is known
            summing[span_id] = above
            if has_tokens:
                with_tokens.add(span_id)
            above = tree.place(above).model
    for span_id, step in summing.items():
        above = tree.place(step).model
        if span_id not in with_tokens and (above is None or above.span.span_id in with_tokens):
            found.append(step)
    return found


def tool_calls(steps: Iterable[Step], tree: Tree) -> list[Step]:
    """The tool calls that `steps` report by spans, each once, in order of time.

    A tool span right inside another one of the same name (the client's or server's side of MCP) is
    the same call, as long as their ids and arguments do not contradict it; beside it, one of
    another instrumentation if they agree.
    """
    calls = [x for x in steps if x.kind == "tool"]
    if any(tree.place(x).tool is not None for x in calls):
        calls = _without_inner(calls, tree)
    if len({x.span.scope.name for x in calls}) > 1:
        calls = [reduce(merged_tools, reports) for reports in tool_reports(calls, tree)]
    return sorted(calls, key=_BY_START)


def _without_inner(calls: list[Step], tree: Tree) -> list[Step]:
    found: dict[str, Step] = {}
    merged_into: dict[str, str] = {}
    for step in sorted(calls, key=lambda x: (tree.place(x).depth, x.span.span_id)):
        above = tree.place(step).tool
        outer_id = (
            None if above is None else merged_into.get(above.span.span_id, above.span.span_id)
        )
        outer = None if outer_id is None else found.get(outer_id)
        if outer is not None and outer_id is not None and _same_tool_call(outer, step):
            merged_into[step.span.span_id] = outer_id
            found[outer_id] = merged_tools(outer, step)
        else:
            found[step.span.span_id] = step
    return list(found.values())


def _without_nesting(calls: list[Step], inner: dict[str, list[Step]], tree: Tree) -> list[Step]:
    """The steps after merging from the innermost outwards, so that a call reported three times is
    merged twice.

    A step around a wrapper is a wrapper too: it contains the several calls that the inner one
    contains.
    """
    current = {x.span.span_id: x for x in calls}
    around_wrappers: set[str] = set()
    for step in sorted(calls, key=lambda x: (-tree.place(x).depth, x.span.span_id)):
        span_id = step.span.span_id
        below = [
            current[x.span.span_id]
            for x in inner.get(span_id, ())
            if x.span.span_id in current and not _is_of_tool(x, step)
        ]
        with_answer = [x for x in below if x.output is not None or x.output_tokens is not None]
        if len(with_answer) > 1 or span_id in around_wrappers:
            del current[span_id]
            above = tree.place(step).model
            if above is not None:
                around_wrappers.add(above.span.span_id)
            continue
        for other in below:
            current[span_id] = merged(current[span_id], other)
            del current[other.span.span_id]
    return list(current.values())


def _is_of_tool(inner: Step, outer: Step) -> bool:
    """Whether a call inside another one of the same instrumentation is one that a tool made, which
    an SDK ran before it had the answer.
    """
    if inner.span.scope.name != outer.span.scope.name:
        return False
    one, other = (CallIdentity.of(x, "question", "system") for x in (inner, outer))
    return agree(one, other, "question") is agree(one, other, "system") is Verdict.DIFFERENT


def _without_siblings(calls: list[Step], tree: Tree) -> list[Step]:
    """Merge the reports that share a response id: into that of the framework, which has its place
    in an agent.
    """
    found: list[Step] = []
    identities: list[CallIdentity] = []
    running: defaultdict[str, list[int]] = defaultdict(list)
    requested_at: dict[str, int] = {}
    for step in sorted(calls, key=_BY_START):
        identity, twin = _identity(step), None
        if step.response_id:
            # What ended before this one started overlaps none of those that follow either.
            begun = [
                at
                for at in running[step.response_id]
                if found[at].span.end_ns >= step.span.start_ns
            ]
            running[step.response_id] = begun = begun[-_MAX_OF_RESPONSE:]
            twin = _twin(step, identity, found, identities, begun)
            if twin is None and _only_fetches(step):
                twin = requested_at.get(step.response_id)
            if twin is None:
                begun.append(len(found))
                requested_at.setdefault(step.response_id, len(found))
        if twin is None:
            found.append(step)
            identities.append(identity)
            continue
        before = found[twin]
        outer, inner = sorted((before, step), key=lambda report: -tree.place(report).agents)
        found[twin] = merged(outer, inner)
        if found[twin].input is not before.input or found[twin].output is not before.output:
            identities[twin] = _identity(found[twin])
    return found


def _twin(
    step: Step,
    identity: CallIdentity,
    found: Sequence[Step],
    identities: Sequence[CallIdentity],
    begun: Iterable[int],
) -> int | None:
    """Of calls with one response id, the first that may be the one that a step reports."""
    for at in begun:
        is_same_scope = found[at].span.scope.name == step.span.scope.name
        if _overlap(found[at], step) and not _contradict(
            identities[at], identity, is_same_scope=is_same_scope
        ):
            return at
    return None


def _only_fetches(step: Step) -> bool:
    """Whether a call requests nothing itself: it fetches the answer to one made before."""
    return step.input is None and step.input_tokens is None and step.output_tokens is None


def _overlap(one: Step, other: Step) -> bool:
    return one.span.start_ns <= other.span.end_ns and other.span.start_ns <= one.span.end_ns


def _identity(step: Step) -> CallIdentity:
    return CallIdentity.of(step, "text", "calls", "question")


def _contradict(one: CallIdentity, other: CallIdentity, *, is_same_scope: bool) -> bool:
    """Whether two reports record different answers or calls, or those of one instrumentation
    different questions.

    Servers that repeat their ids give several calls the same one.
    """
    if agree(one, other, "text", "calls") is Verdict.DIFFERENT:
        return True
    return is_same_scope and agree(one, other, "question") is Verdict.DIFFERENT


def _same_tool_call(outer: Step, inner: Step) -> bool:
    if outer.tool_name != inner.tool_name:
        return False
    if outer.call_id and inner.call_id:
        return outer.call_id == inner.call_id
    return outer.arguments is None or inner.arguments is None or outer.arguments == inner.arguments


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
