"""Find the reports of one call that stand side by side: a framework's callbacks tell it, and the SDK below them too."""

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from spanscore.model.span import Span
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.call_ids import is_item
from spanscore.turns.basis.tree import Place, Tree
from spanscore.turns.dedup.merge import differ, is_cut

_MAX_REPORTS = 40
"""Reports with something in common that are compared with one."""

_MAX_SCOPES = 5
"""Instrumentations that are held against each other: the first by name."""

_MAX_ABOVE = 50
"""Agents in each other that are looked through."""

_MAX_SLACK_NS = 20 * 10**6
"""By how much the report of the inner layer may stick out: callbacks may be told late, and to the millisecond."""

UNIQUE = re.compile(r"[0-9A-Za-z]+[-_][0-9A-Za-z_-]{16,}|[0-9A-Za-z_-]{20,}")
"""Ids that no two calls share by chance; those of test servers and small local ones are shorter, and repeat."""


@dataclass(slots=True)
class _Report(ABC):
    """What one step tells of a call."""

    step: Step
    tree: Tree

    @property
    @abstractmethod
    def keys(self) -> Sequence[Hashable]:
        """What another report of that call has in common with it: one of these at least."""

    @property
    def place(self) -> Place:
        """Where the step stands."""
        return self.tree.place(self.step)


ReportT = TypeVar("ReportT", bound=_Report)


@dataclass(slots=True)
class _Call(Generic[ReportT]):
    """A call with its reports, each of an instrumentation of its own, and when the last of them ends."""

    reports: list[ReportT] = field(default_factory=list)
    ended_ns: int = 0
    scopes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Model(_Report):
    """What a step tells of a model call. `asked` are the ids of the calls that it asked for, `names` their tools.

    `heard` is the conversation that it was given, as any instrumentation tells it: what the user said, and the ids of
    calls and of their results. `tokens` are None where none are counted.
    """

    asked: tuple[str, ...]
    names: tuple[str, ...]
    text: str
    tokens: tuple[int | None, int | None]
    heard: list[Hashable]
    question: str | None
    system: str | None

    @property
    def keys(self) -> Sequence[Hashable]:
        found: list[Hashable] = []
        if self.asked or self.text:
            found.append(("asked", self.asked[0]) if self.asked else ("text", self.text))
        if self.tokens[1] is not None:
            found.append(("tokens", self.tokens[1]))
        if self.heard:
            found.append(("heard", len(self.heard), self.heard[-1]))
        return found


class _Tool(_Report):
    """What a step tells of a run of a tool."""

    __slots__ = ()

    @property
    def keys(self) -> Sequence[Hashable]:
        return [self.step.tool_name]


def model_reports(calls: Sequence[Step], tree: Tree) -> list[list[Step]]:
    """Model calls, each as its reports, that of the framework first.

    Reports are of one call if they are of different instrumentations, one lies in the time of the other and in no agent
    but those around it, and they agree: in what was put out and in what was given or counted; where one does not tell
    what was put out, in what was given or counted. Unique ids of the same tool calls are enough.
    """
    return _joined([_model(x, tree) for x in calls], _is_same_model)


def tool_reports(calls: Sequence[Step], tree: Tree) -> list[list[Step]]:
    """Runs of tools, each as its reports, that of the framework first: of one tool, with one id or the same arguments.

    As model calls, they are of different instrumentations, and one lies in the time of the other.
    """
    return _joined([_Tool(x, tree) for x in calls], _is_same_tool)


def _joined(reports: list[ReportT], is_same: Callable[[ReportT, ReportT], bool]) -> list[list[Step]]:
    """In order of time, each report goes to the nearest call that still runs and that others tell, or is a new one.

    `waiting` has, for what reports have in common and an instrumentation, the calls that this one did not tell yet.
    """
    scopes = sorted({x.step.span.scope.name for x in reports})[:_MAX_SCOPES]
    waiting: dict[tuple[Hashable, str], deque[_Call[ReportT]]] = {}
    calls: list[_Call[ReportT]] = []
    for report in sorted(reports, key=lambda x: (x.step.span.start_ns, -x.step.span.end_ns, x.step.span.span_id)):
        span, keys = report.step.span, report.keys
        near = {id(x): x for key in keys for x in _running(waiting.get((key, span.scope.name)), report)}
        alike = [x for x in islice(near.values(), _MAX_REPORTS) if any(is_same(y, report) for y in x.reports)]
        call = min(alike, key=lambda x: _apart_ns(x.reports[0], report), default=None)
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
    """Of the calls that one of this instrumentation may tell too, the first that still run; others are let go."""
    if not waiting:
        return
    span = report.step.span
    near = [waiting.popleft() for _ in range(min(len(waiting), _MAX_REPORTS))]
    near = [x for x in near if x.ended_ns >= span.start_ns and span.scope.name not in x.scopes]
    waiting.extendleft(reversed(near))
    yield from near


def _apart_ns(one: _Report, other: _Report) -> int:
    return abs(one.step.span.start_ns - other.step.span.start_ns) + abs(one.step.span.end_ns - other.step.span.end_ns)


def _model(step: Step, tree: Tree) -> _Model:
    output = () if "output" in step.damaged else [x for x in step.output or () if not x.damaged]
    given = () if is_cut(step, "input") else step.input or ()
    calls = [x for message in output for x in message.calls]
    return _Model(
        step,
        tree,
        asked=tuple(sorted({x.call_id for x in calls if x.call_id and not is_item(x.call_id)})),
        names=tuple(sorted(x.name for x in calls)),
        text=_squeezed(x.text for x in output),
        tokens=(step.input_tokens or None, step.output_tokens or None),
        heard=list(_heard(given)),
        question=conversation.opening(given).text,
        system=_squeezed([None if "system" in step.damaged else step.system or conversation.system_text(given)]),
    )


def _squeezed(texts: Iterable[str | None]) -> str:
    """Texts without the space in them, which each instrumentation puts between parts in its own way."""
    return "".join("".join(x for x in texts if x).split())


def _heard(messages: Sequence[Message]) -> Iterator[Hashable]:
    for message in messages:
        if message.role == "user" and message.text:
            yield message.text
        for call in message.calls:
            yield call.call_id
        for result in message.results:
            yield result.call_id


def _is_same_model(outer: _Model, inner: _Model) -> bool:
    if _contradict(outer, inner):
        return False
    if outer.asked and outer.asked == inner.asked and all(map(UNIQUE.fullmatch, outer.asked)):
        return True
    if not _is_inside(outer, inner) or differ(outer.question, inner.question) or differ(outer.system, inner.system):
        return False
    counts = [x == y for x, y in zip(outer.tokens, inner.tokens, strict=True) if x and y]
    if counts and not any(counts):
        return False
    is_named = outer.names == inner.names != () and not (outer.asked and inner.asked)  # one tells no ids of calls
    is_told = bool(outer.text and inner.text) or bool(outer.asked and inner.asked) or is_named
    is_counted = bool(outer.tokens[1] and inner.tokens[1]) and all(counts)
    is_given = bool(outer.heard) and outer.heard == inner.heard
    if is_told:
        return is_given or is_counted
    is_silent = outer.step.output is None or inner.step.output is None
    return (
        is_silent
        and _may_be_one_model(outer.step.model, inner.step.model)
        and (is_given or (is_counted and not differ(outer.heard, inner.heard)))
    )


def _contradict(one: _Model, other: _Model) -> bool:
    """Whether two reports tell another id, another answer or other calls."""
    pairs = (
        (one.step.response_id, other.step.response_id),
        (one.text, other.text),
        (one.asked, other.asked),
        (one.names, other.names),
    )
    return any(differ(x, y) for x, y in pairs)


def _is_same_tool(outer: _Tool, inner: _Tool) -> bool:
    one, other = outer.step, inner.step
    if not _is_inside(outer, inner) or differ(one.call_id, other.call_id):
        return False
    if one.call_id and other.call_id:
        return True
    return one.arguments is not None and one.arguments == other.arguments


def _is_inside(one: _Report, other: _Report) -> bool:
    """Whether one of two reports lies in the time of the other, and both in the agents that one of them is in."""
    first, second = one.step.span, other.step.span
    if second.start_ns >= first.end_ns and second.start_ns > first.start_ns:
        return False
    if not (_is_within(first, second) or _is_within(second, first)):
        return False
    below, above = sorted((one, other), key=lambda x: -x.place.agents)
    return above.place.agent is None or any(x is above.place.agent for x in _agents(below))


def _is_within(outer: Span, inner: Span) -> bool:
    return outer.start_ns - _MAX_SLACK_NS <= inner.start_ns and inner.end_ns <= outer.end_ns + _MAX_SLACK_NS


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

    >>> _may_be_one_model("claude-haiku-latest", "anthropic/claude-haiku-20241022"), _may_be_one_model("a-1", "b-1")
    (True, False)
    """
    if not one or not other:
        return True
    shorter, longer = sorted((one.removesuffix("-latest"), other.removesuffix("-latest")), key=len)
    return shorter in longer
