"""The texts by which a tool call and the turn of the agent that it called elsewhere are found."""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

from spanscore.model.json import Json, dumps, loads
from spanscore.model.record import record
from spanscore.model.span import Span
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace, RequestedCall, ToolCall
from spanscore.turns.basis.times import MAX_SKEW_NS, Times

_MAX_CALLS = 1000
"""Tool calls of one trace that are compared with the questions of others: the first."""

_MAX_TEXTS = 20
"""Texts in a call's arguments of which each may be a question: the outermost."""

_MAX_NODES = 300
"""Values in a call's arguments, or in its result, that are looked at: the outermost."""

_MAX_CHARS = 10_000
"""Characters of a text that count."""

_MAX_TURNS_OF_TEXT = 100
"""Turns with one text as their question that are looked at for one call: the first that it may have
called.

These are more than those among which `delegation` looks for the one that is meant, so a turn left
out here makes no other one the only one.
"""


class Called(NamedTuple):
    """A tool call that returned something: the texts in its arguments, and when it ran.

    `span_id` is its span, or where it has none that of the model call that requested it. Where that
    is in another trace, it is the model call that was given the result, and the call started at 0.
    """

    call: ToolCall
    texts: frozenset[int]
    span_id: str
    times: Times


class DelegationHints(NamedTuple):
    """What a trace contains that another may contain as well.

    Texts are their hashes, which are cheap to keep and to compare. `question` is the user's in a
    trace of one turn, None in others.
    """

    question: int | None
    times: Times
    calls: tuple[Called, ...] = ()


@record()
class DelegatingCall:
    """A tool call that an agent in another trace may have carried out.

    It has when it ran and, as hashes, the texts in its arguments and in its result. `number` is its
    place in its trace; `span_id` and `times` are as in `Called`.
    """

    number: int
    span_id: str
    times: Times
    arguments: frozenset[int]
    results: frozenset[int]


def hints_of(reading: Reading, traces: Sequence[AgentTrace]) -> DelegationHints | None:
    """The texts of a trace, of which `traces` are the turns; None where there are none."""
    question = traces[0].user_input if len(traces) == 1 else None
    answered = _answered(traces)
    if not (question or answered):
        return None
    spans = {step.span.span_id: step.span for step in reading.steps}
    started_ns = min([span.start_ns for span in spans.values()])
    ended_ns = max([max(span.start_ns, span.end_ns) for span in spans.values()])
    calls = tuple(_called(reading, answered[:_MAX_CALLS], spans)) if answered else ()
    return DelegationHints(hashed(question) if question else None, (started_ns, ended_ns), calls)


def _called(
    reading: Reading,
    answered: Sequence[tuple[AgentTrace, ToolCall]],
    spans: Mapping[str, Span],
) -> Iterator[Called]:
    """The calls, but for those whose spans show what was done, or whose times are not known."""
    shown = _around_work(reading)
    between: dict[str, _ModelCalls] = {}
    for trace, call in answered:
        texts = frozenset(map(hashed, texts_of(call.arguments)[:_MAX_TEXTS]))
        if call.span_id is None:
            if trace.id not in between:
                between[trace.id] = _ModelCalls(trace, spans)
            ran = between[trace.id].around(call)
            if ran is not None:
                yield Called(call, texts, *ran)
        elif call.span_id not in shown:
            span = spans[call.span_id]
            times = (span.start_ns, max(span.start_ns, span.end_ns))
            yield Called(call, texts, span.span_id, times)


def _around_work(reading: Reading) -> set[str]:
    """The ids of the spans in which an agent or a model call shows."""
    parents = {span.span_id: span.parent_span_id for span in reading.spans}
    found: set[str] = set()
    for step in reading.steps:
        above = step.span.parent_span_id if step.kind in {"agent", "model"} else ""
        while above in parents and above not in found:
            found.add(above)
            above = parents[above]
    return found


class _ModelCalls:
    """The model calls of a turn, between which its tool calls ran."""

    def __init__(self, trace: AgentTrace, spans: Mapping[str, Span]) -> None:
        self._models = sorted((spans[model.span_id] for model in trace.model_calls), key=_start)
        self._requesting: dict[tuple[str, str], Span] = {}
        for model in reversed(trace.model_calls):
            for call in model.tool_calls:
                self._requesting.update(dict.fromkeys(_known_by(call), spans[model.span_id]))

    def around(self, call: ToolCall) -> tuple[str, Times] | None:
        """The `span_id` and the `times` of `Called` for a call without a span.

        None where no later model call was given its result.
        """
        known = (key for key in _known_by(call) if key in self._requesting)
        requester = self._requesting.get(next(known, ("", "")))
        at = 0 if requester is None else bisect_left(self._models, requester.end_ns, key=_start)
        if at == len(self._models):
            return None
        after = self._models[at]
        if requester is None:
            return after.span_id, (0, after.start_ns)
        return requester.span_id, (requester.end_ns, after.start_ns)


def _start(span: Span) -> int:
    return span.start_ns


def _known_by(call: ToolCall | RequestedCall) -> Iterator[tuple[str, str]]:
    if call.call_id:
        yield "id", call.call_id
    yield call.name, dumps(call.arguments, sort_keys=True)


_Turn: TypeAlias = tuple[AgentTrace, str]
"""An agent trace, and the id of the OTel trace that it is in."""


def may_delegate(traces: Mapping[str, Sequence[AgentTrace]]) -> set[str]:
    """The ids of the traces with a tool call that another trace's agent may have carried out, and
    of those other traces.

    `traces` maps the ids of OTel traces to their turns. It is called for all traces of a file, so
    it is quick rather than exact, and may name a few traces too many.
    """
    by_question = _by_question(traces)
    found: set[str] = set()
    known_answers: dict[str, set[int]] = {}
    for trace_id, turns in traces.items():
        for trace, call in _answered(turns)[:_MAX_CALLS]:
            for text in texts_of(call.arguments)[:_MAX_TEXTS]:
                alike = by_question.get(text.strip()[:_MAX_CHARS])
                others = set(_may_have_done(call, trace, alike, known_answers)) if alike else set()
                others.discard(trace_id)
                found.update(others, (trace_id,) if others else ())
    return found


def _by_question(traces: Mapping[str, Sequence[AgentTrace]]) -> dict[str, list[_Turn]]:
    """The traces of one turn by their questions, in order of time."""
    found = defaultdict[str, list[_Turn]](list)
    for trace_id, turns in traces.items():
        if len(turns) == 1 and turns[0].user_input:
            found[turns[0].user_input.strip()[:_MAX_CHARS]].append((turns[0], trace_id))
    for alike in found.values():
        alike.sort(key=_begun)
    return dict(found)


def _answered(traces: Iterable[AgentTrace]) -> list[tuple[AgentTrace, ToolCall]]:
    """The tool calls that have arguments and a result."""
    found: list[tuple[AgentTrace, ToolCall]] = []
    for trace in traces:
        calls = trace.tool_calls or ()
        found += [(trace, call) for call in calls if call.result is not None and call.arguments]
    return found


def _may_have_done(
    call: ToolCall,
    trace: AgentTrace,
    alike: Sequence[_Turn],
    known_answers: dict[str, set[int]],
) -> Iterator[str]:
    """The ids of the traces that may have carried out a call, of those with one question.

    `alike` are these, in order of time; their question is in the call's arguments. `known_answers`
    contains the answer of each by trace id, for the next call.
    """
    if call.started_ns is None:
        end = bisect_right(alike, trace.ended_ns + MAX_SKEW_NS, key=_begun)
        start = max(0, end - _MAX_TURNS_OF_TEXT)
    else:
        start = bisect_left(alike, call.started_ns - MAX_SKEW_NS, key=_begun)
    results: frozenset[int] | None = None
    for turn, trace_id in alike[start : start + _MAX_TURNS_OF_TEXT]:
        if turn.final_output is None:  # another trace may contain it
            yield trace_id
            continue
        results = _results_of(call) if results is None else results
        if trace_id not in known_answers:
            known_answers[trace_id] = answers(turn.final_output)
        if not results.isdisjoint(known_answers[trace_id]):
            yield trace_id


def _begun(turn: _Turn) -> int:
    return turn[0].started_ns


def delegating_calls(hints: DelegationHints) -> tuple[DelegatingCall, ...]:
    """The tool calls of a trace with the texts that they returned."""
    return tuple(
        DelegatingCall(number, called.span_id, called.times, called.texts, _results_of(called.call))
        for number, called in enumerate(hints.calls)
    )


def hashed(text: str) -> int:
    """A hash of a text without the space around it, equal in every process. Python's own hash
    differs from process to process.
    """
    cut = text.strip()[:_MAX_CHARS].encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(cut, digest_size=8).digest(), "little")


def answers(text: str) -> set[int]:
    """What an answer may be as the result of a call: its text, or the value that it is JSON of."""
    found = {hashed(text)}
    if text[:1] in {"{", "["} and len(text) < _MAX_CHARS:
        with suppress(ValueError):
            found.add(hashed(dumps(loads(text), sort_keys=True)))
    return found


def _results_of(call: ToolCall) -> frozenset[int]:
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
