"""A sub-agent's trace, and the call that started it.

A call over A2A, MCP or HTTP makes two such traces if it does not pass on the trace context. The
only call and the only turn of one question and one answer belong together.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, product
from typing import ClassVar, NamedTuple

from spanscore.model.json import Json, dumps, loads
from spanscore.model.step import Reading
from spanscore.model.trace import AgentTrace
from spanscore.turns.basis import stitch_keys
from spanscore.turns.basis.conversation import MAX_SKEW_NS, Times, may_lie_in
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Group, Groups, Reason, agree, agree_in_user, shown

_MIN_CHARS = 24
"""Characters of question and answer together: shorter ones may be alike by chance."""

_MAX_SLACK_NS = 10**8
"""By how much work may stick out of its call though the two name different sessions."""

_MAX_CALLS, _MAX_TEXTS, _MAX_CHARS = 1000, 20, 10_000
"""Calls of a trace, texts of a value, and characters of a text that count."""

_MAX_PAIRS, _MAX_ALIKE = 100_000, 100
"""Calls and turns of one question and answer that are compared: of more none is joined; and how
many of one question the index compares with one: the latest.
"""


class DelegatingCall(NamedTuple):
    """A tool call that an agent in another trace may have carried out; texts are hashes.

    One without a span has that of its turn's first model call. It ran at any time of its turn,
    which may have begun in another trace: it started at 0.
    """

    span_id: str
    times: Times
    questions: frozenset[bytes]
    answers: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationHints(Clue):
    """What a trace contains that another may contain as well, texts as hashes.

    Nearly every trace has some, so they are no evidence by themselves.
    """

    is_evidence: bool = False
    asked: tuple[bytes, bytes, Times] | None
    """The question and the answer, and the times of a turn that is alone in its trace."""

    calls: tuple[DelegatingCall, ...]

    def questions(self) -> Iterator[tuple[bool, bytes, Times]]:
        """Each question: of a call or not, its text, and when that ran."""
        if self.asked is not None:
            yield False, self.asked[0], self.asked[2]
        yield from ((True, text, call.times) for call in self.calls for text in call.questions)


class DelegationIndex:
    """The traces that may delegate to each other, by the questions of calls and turns, and times.

    At most `max_texts` are remembered, for `keep_ns`: of more, the latest that came.
    """

    def __init__(self, max_texts: int, keep_ns: int) -> None:
        self.max_texts = max_texts
        self._keep_ns = keep_ns
        self._known = defaultdict[tuple[bool, bytes], deque[tuple[Times, str]]](deque)
        self._order: deque[tuple[int, tuple[bool, bytes]]] = deque()

    def add(self, trace_id: str, hints: DelegationHints, added_ns: int) -> None:
        """Remember the texts of a trace, which was read now, and forget what is too old."""
        for is_call, text, times in hints.questions():
            self._known[is_call, text].append((times, trace_id))
            self._order.append((added_ns + self._keep_ns, (is_call, text)))
        while self._order and (len(self._order) > self.max_texts or self._order[0][0] <= added_ns):
            _, key = self._order.popleft()
            self._known[key].popleft()
            if not self._known[key]:
                del self._known[key]

    def of(self, trace_id: str, hints: DelegationHints) -> list[str]:
        """The traces that this one's calls may have called, or whose calls may have called it."""
        found: dict[str, None] = {}
        for is_call, text, times in hints.questions():
            alike = self._known.get((not is_call, text), ())
            for others, other in islice(reversed(alike), _MAX_ALIKE):
                if may_lie_in(others, times) if is_call else may_lie_in(times, others):
                    found[other] = None
        found.pop(trace_id, None)
        return list(found)


def hints_of(
    reading: Reading, traces: Sequence[AgentTrace], *, answers: bool = False
) -> DelegationHints | None:
    """The texts of a trace, of which `traces` are the turns; None where there are none.

    The index needs no `answers` of calls, only what joins traces does.
    """
    asked = _asked(traces[0]) if len(traces) == 1 else None
    calls = tuple(islice(_delegating(reading, traces, answers=answers), _MAX_CALLS))
    return DelegationHints(asked=asked, calls=calls) if asked or calls else None


def _asked(trace: AgentTrace) -> tuple[bytes, bytes, Times] | None:
    """A turn's question and answer; None where they are too short, or an echo."""
    question, answer = (trace.user_input or "").strip(), (trace.final_output or "").strip()
    if not question or not answer or question == answer or len(question + answer) < _MIN_CHARS:
        return None
    return _hashed(question), _hashed(answer), (trace.started_ns, trace.ended_ns)


def _delegating(
    reading: Reading, traces: Sequence[AgentTrace], *, answers: bool
) -> Iterator[DelegatingCall]:
    """The calls that returned something, but for those whose spans show what was done."""
    around_work = _around_work(reading)
    for trace in traces:
        first = trace.model_calls[0].span_id if trace.model_calls else ""
        for call in trace.tool_calls or ():
            span_id = call.span_id or first
            if span_id and call.result is not None and call.span_id not in around_work:
                times = call.started_ns or 0, call.ended_ns or trace.ended_ns
                returned = frozenset[bytes]()
                if answers:
                    returned = _hashes(call.result) | {_hashed(dumps(call.result))}
                yield DelegatingCall(span_id, times, _hashes(call.arguments), returned)


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


def _hashed(text: str) -> bytes:
    """A hash of a text, or of the value that it is JSON of, equal in every process."""
    text = text.strip()[:_MAX_CHARS]
    if text[:1] in {"{", "["}:
        with suppress(ValueError):
            text = dumps(loads(text), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _hashes(value: Json) -> frozenset[bytes]:
    """The hashes of the texts in a value, the outermost ones."""
    found, waiting = set[bytes](), deque([value])
    while waiting and len(found) < _MAX_TEXTS:
        node = waiting.popleft()
        if isinstance(node, str):
            found.add(_hashed(node))
        elif isinstance(node, (dict, list)):
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return frozenset(found)


class Delegation(Reason):
    """A tool call in one trace called the agent whose turn is the other trace."""

    words = (
        "a tool call, and the only turn elsewhere that was asked, word for word, a text in its "
        "arguments, answered its result or a text in that, and ran while the call did; no other "
        "call fits that turn ([below](#sub-agents-in-other-traces))"
    )
    after = ("logs_alone",)
    signs: ClassVar[frozenset[Sign]] = frozenset()

    def clue(self, trace: ReadTrace) -> DelegationHints | None:
        """Its question and its tool calls."""
        return hints_of(trace.reading, trace.traces, answers=True)

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """Its question."""
        return [stitch_keys.question(x) for x in (_hints(part).asked or ())[:1]]

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The texts that its tool calls may have passed on as questions."""
        return {stitch_keys.question(x) for call in _hints(part).calls for x in call.questions}

    def join(self, groups: Groups) -> None:
        """Join a turn to the call that delegated it, where no other call and no other turn fit."""
        pairs = list(islice(_alike(groups), _MAX_PAIRS + 1))
        fitting = [x for x in pairs if len(pairs) <= _MAX_PAIRS and _fits(*x[1:])]
        count = Counter(id(x) for _, _, call, turn in fitting for x in (call, turn))
        sure = [x for x in fitting if count[id(x[2])] == count[id(x[3])] == 1]
        called = [tuple(turn.parts) for *_, turn in sure]  # before a join changes the groups
        for (part, _, call, _), parts in zip(sure, called, strict=True):
            since = "it was asked a text in the arguments of a tool call of that trace (span "
            since += (
                f"{shown(call.span_id)}), ran while the call did, and answered what it returned"
            )
            if groups.join(part, parts[0], reason=self.name, since=since, across_sessions=True):
                groups.within.update({x.trace_id: call.span_id for x in parts})


def _alike(groups: Groups) -> Iterator[tuple[TraceFragment, Group, DelegatingCall, Group]]:
    """The calls, in a trace of a group, and the groups of turns of the same question and answer."""
    known = [(x, part, _hints(part)) for x in groups.groups() for part in x.parts]
    turns = defaultdict[tuple[bytes, bytes], dict[int, Group]](dict)
    for group, _, hints in known:
        if hints.asked is not None:
            turns[hints.asked[:2]][id(group)] = group
    for group, part, hints in known:
        for call in hints.calls:
            for texts in product(call.questions, call.answers):
                yield from ((part, group, call, x) for x in turns.get(texts, {}).values())


def _fits(caller: Group, call: DelegatingCall, turn: Group) -> bool:
    """Whether a shorter turn ran while a call did; clocks may differ, less across sessions."""
    skew_ns = MAX_SKEW_NS if agree(caller, turn) else _MAX_SLACK_NS
    whole, ran, did = _times(caller), call.times, _times(turn)
    is_inner = did[1] - did[0] < whole[1] - whole[0]  # so that none is within itself
    is_at_time = may_lie_in(did, (ran[0] or whole[0], ran[1]), skew_ns)
    return caller is not turn and is_inner and is_at_time and agree_in_user(caller, turn)


def _hints(part: TraceFragment) -> DelegationHints:
    return part.clue(DelegationHints) or DelegationHints(asked=None, calls=())


def _times(group: Group) -> Times:
    return min(x.started_ns for x in group.parts), max(x.ended_ns for x in group.parts)
