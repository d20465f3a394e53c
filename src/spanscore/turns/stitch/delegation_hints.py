"""What a trace may have had done elsewhere, or done for another: its tool calls and its question, by their texts."""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from spanscore.model.json import Json, dumps, loads
from spanscore.model.record import record
from spanscore.model.span import Span
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace, RequestedCall, ToolCall
from spanscore.turns.basis.times import MAX_SKEW_NS, Times

_MAX_CALLS = 1000
"""Tool calls of one trace that are held against the questions of others: the first."""

_MAX_TEXTS = 20
"""Texts in a call's arguments of which each may be a question: the outermost."""

_MAX_NODES = 300
"""Values in a call's arguments, or in its result, that are looked at: the outermost."""

_MAX_CHARS = 10_000
"""Characters of a text that count."""

_MAX_TURNS_OF_TEXT = 100
"""Turns that were asked one text that are looked at for one call: the first that it may have asked.

These are more than those among which one is looked for that is meant, so a turn left out here makes no other sure.
"""


class Called(NamedTuple):
    """A tool call that returned something: the texts in its arguments, and when it ran.

    `span_id` is its span, or where it has none that of the model call that asked for it. Where that is in another
    trace, it is the one that was told the result, and when the call started is 0.
    """

    call: ToolCall
    texts: frozenset[int]
    span_id: str
    times: Times


class DelegationHints(NamedTuple):
    """What a trace says that another may say as well. Texts are their hashes, which are cheap to have and to compare.

    `question` is the user's in a trace of one turn, None in others.
    """

    question: int | None
    times: Times
    calls: tuple[Called, ...] = ()


@record()
class DelegatingCall:
    """A tool call as an agent elsewhere may have done it: when it ran, and the texts said and heard, as hashes.

    `number` tells it from others of its trace; `span_id` and `times` are as `Called` has them.
    """

    number: int
    span_id: str
    times: Times
    said: frozenset[int]
    heard: frozenset[int]


def hints_of(reading: Reading, traces: Sequence[AgentTrace]) -> DelegationHints | None:
    """What a trace, of which `traces` are the turns, says that others may say too; None where it says nothing."""
    asked = traces[0].user_input if len(traces) == 1 else None
    answered = _answered(traces)
    if not (asked or answered):
        return None
    spans = {x.span.span_id: x.span for x in reading.steps}
    around: dict[str, _Around] = {}
    shown = _around_work(reading) if answered else set()
    calls: list[Called] = []
    for trace, call in answered[:_MAX_CALLS]:
        texts = frozenset(map(hashed, texts_of(call.arguments)[:_MAX_TEXTS]))
        if call.span_id is None:
            if trace.id not in around:
                around[trace.id] = _Around(trace, spans)
            ran = around[trace.id].of(call)
            if ran is not None:
                calls.append(Called(call, texts, *ran))
        elif call.span_id not in shown:  # else it is known what was done
            span = spans[call.span_id]
            calls.append(Called(call, texts, span.span_id, (span.start_ns, max(span.start_ns, span.end_ns))))
    started_ns = min(x.start_ns for x in spans.values())
    ended_ns = max(max(x.start_ns, x.end_ns) for x in spans.values())
    return DelegationHints(hashed(asked) if asked else None, (started_ns, ended_ns), tuple(calls))


def _around_work(reading: Reading) -> set[str]:
    """The ids of the spans in which an agent or a model call shows."""
    parents = {x.span_id: x.parent_span_id for x in reading.spans}
    found: set[str] = set()
    for step in reading.steps:
        above = step.span.parent_span_id if step.kind in {"agent", "model"} else ""
        while above in parents and above not in found:
            found.add(above)
            above = parents[above]
    return found


class _Around:
    """The model calls of a turn, between which its tool calls ran."""

    def __init__(self, trace: AgentTrace, spans: Mapping[str, Span]) -> None:
        self._models = sorted((spans[x.span_id] for x in trace.model_calls), key=_start)
        self._asking: dict[tuple[str, str], Span] = {}
        for model in reversed(trace.model_calls):
            self._asking.update((x, spans[model.span_id]) for call in model.tool_calls for x in _known_by(call))

    def of(self, call: ToolCall) -> tuple[str, Times] | None:
        """The `span_id` and the `times` of `Called` for a call without a span; None where no later model was told."""
        asker = next((self._asking[x] for x in _known_by(call) if x in self._asking), None)
        at = 0 if asker is None else bisect_left(self._models, asker.end_ns, key=_start)
        if at == len(self._models):
            return None
        told = self._models[at]
        return (told.span_id, (0, told.start_ns)) if asker is None else (asker.span_id, (asker.end_ns, told.start_ns))


def _start(span: Span) -> int:
    return span.start_ns


def _known_by(call: ToolCall | RequestedCall) -> Iterator[tuple[str, str]]:
    if call.call_id:
        yield "id", call.call_id
    yield call.name, dumps(call.arguments, sort_keys=True)


def may_delegate(traces: Mapping[str, Sequence[AgentTrace]]) -> set[str]:
    """Of OTel traces, by id, with their turns, those of which a tool call of one may have been done by the other.

    All traces are asked for that, so it has to be quick: it may name some too many, but not many.
    """
    asked = defaultdict[str, list[tuple[AgentTrace, str]]](list)
    for trace_id, turns in traces.items():
        if len(turns) == 1 and turns[0].user_input:
            asked[turns[0].user_input.strip()[:_MAX_CHARS]].append((turns[0], trace_id))
    for alike in asked.values():
        alike.sort(key=_begun)
    found: set[str] = set()
    said: dict[str, set[int]] = {}
    for trace_id, turns in traces.items():
        for trace, call in _answered(turns)[:_MAX_CALLS]:
            for text in texts_of(call.arguments)[:_MAX_TEXTS]:
                if (known := text.strip()[:_MAX_CHARS]) in asked:
                    others = {x for x in _may_have_done(call, trace, asked[known], said) if x != trace_id}
                    found.update(others, (trace_id,) if others else ())
    return found


def _answered(traces: Iterable[AgentTrace]) -> list[tuple[AgentTrace, ToolCall]]:
    return [(x, y) for x in traces for y in x.tool_calls or () if y.result is not None and y.arguments]


def _may_have_done(
    call: ToolCall, trace: AgentTrace, asked: Sequence[tuple[AgentTrace, str]], said: dict[str, set[int]]
) -> Iterator[str]:
    """Of turns with a question that a call asks, in order of time, the traces of those that may answer it.

    `said` keeps what each of them answered, by trace id, for the next call that asks.
    """
    if call.started_ns is None:
        end = bisect_right(asked, trace.ended_ns + MAX_SKEW_NS, key=_begun)
        start = max(0, end - _MAX_TURNS_OF_TEXT)
    else:
        start = bisect_left(asked, call.started_ns - MAX_SKEW_NS, key=_begun)
    heard: frozenset[int] | None = None
    for turn, trace_id in asked[start : start + _MAX_TURNS_OF_TEXT]:
        if turn.final_output is None:  # it may be told in another trace
            yield trace_id
            continue
        heard = _heard(call) if heard is None else heard
        if trace_id not in said:
            said[trace_id] = answers(turn.final_output)
        if not heard.isdisjoint(said[trace_id]):
            yield trace_id


def _begun(turn: tuple[AgentTrace, str]) -> int:
    return turn[0].started_ns


def delegating_calls(said: DelegationHints) -> tuple[DelegatingCall, ...]:
    """The tool calls of a trace with what they returned."""
    return tuple(DelegatingCall(n, x.span_id, x.times, x.texts, _heard(x.call)) for n, x in enumerate(said.calls))


def hashed(text: str) -> int:
    """Stands for a text, but for the space around it, within this process."""
    return hash(text.strip()[:_MAX_CHARS])


def answers(text: str) -> set[int]:
    """What an answer may be as the result of a call: its text, or the value that it is JSON of."""
    found = {hashed(text)}
    if text[:1] in {"{", "["} and len(text) < _MAX_CHARS:
        with suppress(ValueError):
            found.add(hashed(dumps(loads(text), sort_keys=True)))
    return found


def _heard(call: ToolCall) -> frozenset[int]:
    """What a call returned: the texts in it, and the whole."""
    whole = call.result if isinstance(call.result, str) else dumps(call.result, sort_keys=True)
    return frozenset(map(hashed, (whole, *texts_of(call.result))))


def texts_of(value: Json) -> Sequence[str]:
    """The texts in a value, the outermost first."""
    if not isinstance(value, dict) or len(value) > _MAX_NODES:
        return _texts_within(value)
    found: list[str] = []
    for inner in value.values():  # the quick way for what nearly all arguments are
        if isinstance(inner, str):
            found.append(inner)
        elif isinstance(inner, (dict, list)):
            return _texts_within(value)
    return found


def _texts_within(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    found: list[str] = []
    waiting = deque([value])
    left = _MAX_NODES
    while waiting and left > 0:
        node = waiting.popleft()
        inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        for inner in islice(inside, left):
            left -= 1
            if isinstance(inner, str):
                found.append(inner)
            elif isinstance(inner, (dict, list)):
                waiting.append(inner)
    return found
