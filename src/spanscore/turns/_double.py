"""One call that two instrumentations report is one call: find the reports of the same call and merge them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from spanscore.model.step import Message, Step
from spanscore.turns._tree import Tree

MODEL_FACTS = ("input", "output", "system", "tools", "model", "input_tokens", "output_tokens", "response_id")
"""What one report of a model call may tell that another does not."""

_TOOL_FACTS = ("call_id", "arguments", "error")
_BY_START = attrgetter("span.start_ns", "span.span_id")


def model_calls(steps: Iterable[Step], tree: Tree) -> list[Step]:
    """The model calls among `steps`, each once, in order of time.

    A call reported inside another one is the same call. Where two or more calls that tell something lie inside one,
    the outer is a wrapper that only sums up, and they are the calls. Reports side by side are the same call when they
    share their response id, overlap in time and agree, or the later one only fetches the answer.
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
        calls = _without_siblings(calls)
    return sorted(calls, key=lambda x: (x.span.start_ns, len(x.input or ()), x.span.span_id))


def counted(calls: Iterable[Step], tree: Tree) -> list[Step]:
    """The steps whose tokens are a turn's: its model calls and, around calls that tell none, what sums them up."""
    told = list(calls)
    summing: dict[str, Step] = {}
    telling: set[str] = set()
    for step in told:
        tells = step.input_tokens is not None or step.output_tokens is not None
        above = tree.place(step).model
        while above is not None:
            span_id = above.span.span_id
            if span_id in telling or (span_id in summing and not tells):
                break  # all above it is known
            summing[span_id] = above
            if tells:
                telling.add(span_id)
            above = tree.place(above).model
    for span_id, step in summing.items():
        above = tree.place(step).model
        if span_id not in telling and (above is None or above.span.span_id in telling):
            told.append(step)
    return told


def tool_calls(steps: Iterable[Step], tree: Tree) -> list[Step]:
    """The tool calls that `steps` report by spans, each once, in order of time.

    A tool span right inside another one of the same name (the client's or server's side of MCP) is the same call, as
    long as their ids and arguments do not say otherwise.
    """
    calls = [x for x in steps if x.kind == "tool"]
    if all(tree.place(x).tool is None for x in calls):
        return sorted(calls, key=_BY_START)
    found: dict[str, Step] = {}
    merged_into: dict[str, str] = {}
    for step in sorted(calls, key=lambda x: (tree.place(x).depth, x.span.span_id)):
        above = tree.place(step).tool
        outer_id = None if above is None else merged_into.get(above.span.span_id, above.span.span_id)
        outer = None if outer_id is None else found.get(outer_id)
        if outer is not None and outer_id is not None and _same_tool_call(outer, step):
            merged_into[step.span.span_id] = outer_id
            merged = _fill(outer, step, _TOOL_FACTS)
            if not merged.has_result and step.has_result:
                merged = replace(merged, result=step.result, has_result=True)
            found[outer_id] = merged
        else:
            found[step.span.span_id] = step
    return sorted(found.values(), key=_BY_START)


def merged(step: Step, other: Step) -> Step:
    """One report of a model call, completed by another; of messages with the same texts, those that tell more count.

    LiteLLM's own span tells the texts, and not always the calls beside them or their ids.
    """
    filled = _fill(step, other, MODEL_FACTS)
    if _tells_more(other.input, filled.input):
        filled = replace(filled, input=other.input)
    if _tells_more(other.output, filled.output):
        filled = replace(filled, output=other.output)
    return filled


def _without_nesting(calls: list[Step], inner: dict[str, list[Step]], tree: Tree) -> list[Step]:
    """Merge inward out, so that a call reported three times is merged twice.

    What a wrapper lies in is a wrapper too: it holds the several calls that the inner one holds.
    """
    current = {x.span.span_id: x for x in calls}
    around_wrappers: set[str] = set()
    for step in sorted(calls, key=lambda x: (-tree.place(x).depth, x.span.span_id)):
        span_id = step.span.span_id
        below = [current[x.span.span_id] for x in inner.get(span_id, ()) if x.span.span_id in current]
        telling = [x for x in below if x.output is not None or x.output_tokens is not None]
        if len(telling) > 1 or span_id in around_wrappers:
            del current[span_id]
            above = tree.place(step).model
            if above is not None:
                around_wrappers.add(above.span.span_id)
            continue
        for other in below:
            current[span_id] = merged(current[span_id], other)
            del current[other.span.span_id]
    return list(current.values())


def _without_siblings(calls: list[Step]) -> list[Step]:
    found: list[Step] = []
    by_response: defaultdict[str, list[int]] = defaultdict(list)
    asked_at: dict[str, int] = {}
    for step in sorted(calls, key=lambda x: (x.span.start_ns, x.span.span_id)):
        if not step.response_id:
            found.append(step)
            continue
        # What ended before this one started overlaps none of those that follow either.
        begun = [i for i in by_response[step.response_id] if found[i].span.end_ns >= step.span.start_ns]
        by_response[step.response_id] = begun
        twin = next((i for i in begun if _overlap(found[i], step) and not _contradict(found[i], step)), None)
        if twin is None and _only_fetches(step):
            twin = asked_at.get(step.response_id)
        if twin is not None:
            found[twin] = merged(found[twin], step)
            continue
        begun.append(len(found))
        asked_at.setdefault(step.response_id, len(found))
        found.append(step)
    return found


def _only_fetches(step: Step) -> bool:
    """Whether a call asks for nothing itself: it looks for the answer to one made before."""
    return step.input is None and step.input_tokens is None and step.output_tokens is None


def _overlap(one: Step, other: Step) -> bool:
    return one.span.start_ns <= other.span.end_ns and other.span.start_ns <= one.span.end_ns


def _contradict(one: Step, other: Step) -> bool:
    """Whether two reports tell another answer or calls, or those of one instrumentation another question.

    Servers that repeat their ids answer several calls with one.
    """
    alike = one.span.scope.name == other.span.scope.name
    return any(x and y and x != y for x, y in zip(_told(one, alike=alike), _told(other, alike=alike), strict=True))


def _told(step: Step, *, alike: bool) -> tuple[object, ...]:
    output = () if "output" in step.damaged else [x for x in step.output or () if not x.damaged]
    said = next((x.text for x in reversed(step.input or ()) if x.role == "user"), None) if alike else None
    texts, calls = [x.text.strip() for x in output if x.text], [(x.name, x.arguments) for m in output for x in m.calls]
    return said, texts, calls


def _same_tool_call(outer: Step, inner: Step) -> bool:
    if outer.tool_name != inner.tool_name:
        return False
    if outer.call_id and inner.call_id:
        return outer.call_id == inner.call_id
    return outer.arguments is None or inner.arguments is None or outer.arguments == inner.arguments


def _tells_more(theirs: Sequence[Message] | None, ours: Sequence[Message] | None) -> bool:
    """Whether messages name more calls, or more of their ids, than others with the same texts."""
    if theirs is None or ours is None or theirs is ours or _called(theirs) <= _called(ours):
        return False
    heard, said = ({x.text for x in each if x.text and not x.results} for each in (theirs, ours))
    return heard == said


def _called(messages: Sequence[Message]) -> int:
    """How many calls messages name, and how many ids of calls and results."""
    calls = [x for message in messages for x in message.calls]
    ids = [x.call_id for x in calls] + [x.call_id for message in messages for x in message.results]
    return len(calls) + sum(x is not None for x in ids)


def _fill(step: Step, other: Step, facts: tuple[str, ...]) -> Step:
    """`step`, with the facts that it does not tell taken from `other`."""
    missing: dict[str, Any] = {x: getattr(other, x) for x in facts if getattr(step, x) is None}
    return replace(step, **{k: v for k, v in missing.items() if v is not None})
