"""Merge the reports of one call by several instrumentations, where one is inside the other or both
have one response id.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import attrgetter

from spanscore.model.step import Step
from spanscore.turns.basis.tree import Tree
from spanscore.turns.dedup import cross_instrumentation
from spanscore.turns.dedup.identity import CallIdentity, Verdict, agree
from spanscore.turns.dedup.merge import merged, merged_tools

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
        calls = [
            reduce(merged, reports) for reports in cross_instrumentation.model_reports(calls, tree)
        ]
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
        calls = [
            reduce(merged_tools, reports)
            for reports in cross_instrumentation.tool_reports(calls, tree)
        ]
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
            current[x.span.span_id] for x in inner.get(span_id, ()) if x.span.span_id in current
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
