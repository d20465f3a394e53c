"""Model calls that a gateway reports again."""

import re
from bisect import bisect_left, insort_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from spanscore.model.span import changed, record
from spanscore.model.step import Reading, Step
from spanscore.model.trace import TOKEN_DETAILS
from spanscore.turns.basis.conversation import MAX_SKEW_NS, Tree
from spanscore.turns.dedup import identity as merge, reports as nested
from spanscore.turns.dedup.identity import COUNTS, CallIdentity, Part, Verdict, agree, are_unique

MAX_CALLS = 1000
"""Model calls of one trace that are looked for in others: the first."""

_MAX_IDS = 100
"""Ids of tool calls by which one call is known: the first in order."""

_MAX_CALLS_OF_ID = 10
"""Calls with one id in common that are compared with one: the nearest in time."""

_MAX_SLACK_NS = 10**8
"""By how much a gateway's call may stick out of the application's where its id proves nothing."""

_BARE = frozenset({"model", "other"})
_THIN = frozenset({"model", "other", "workflow"})
_GATEWAYS = re.compile(
    r"gateway|proxy|router|portkey|helicone|bifrost|litellm"
    r"|/chat/completions|/v1/(?:completions|messages|responses)|:(?:stream)?generatecontent",
    re.IGNORECASE,
)
_PARTS: tuple[Part, ...] = ("response_id", "text", "calls", "question", "whole_input", *COUNTS)
_ROUTES = ("http.route", "url.path", "http.target")


@record()
class Report:
    """What a trace records of one model call, as far as it is needed to recognise the call.

    `emitter` is the service and the instrumentation. `call_ids` are those of the tools that it
    requested, else those whose results it was given.
    """

    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    emitter: tuple[str, str]
    call_ids: tuple[str, ...]
    identity: CallIdentity

    @property
    def ids(self) -> Iterator[str]:
        """The ids that the other report of the call may have as well."""
        if self.identity.response_id:
            yield self.identity.response_id
        yield from self.call_ids

    @property
    def has_answer(self) -> bool:
        """Whether it records that there was an answer."""
        known = self.identity
        return bool(known.response_id or known.text or known.calls or known.output_tokens)


@record()
class Reports:
    """The model calls that a trace reports.

    `is_bare`: the trace contains nothing else. `is_gateway`: it also shows that a gateway emitted
    it.
    """

    trace_id: str
    is_bare: bool
    is_gateway: bool
    calls: tuple[Report, ...]

    @property
    def ids(self) -> list[str]:
        """The ids by which its calls are found where another trace reports them, as `ids_of_calls`
        gives them.
        """
        return list(islice((x for call in self.calls for x in call.ids), MAX_CALLS))

    @property
    def rank(self) -> tuple[bool, bool, bool, int, str]:
        """Sorts the traces that may be the application's, that one last.

        It is the one that shows more than the calls, that records their input, that is no
        gateway's, and in which they last longer.
        """
        has_input = any(call.identity.whole_input for call in self.calls)
        lasting_ns = sum(call.end_ns - call.start_ns for call in self.calls)
        return not self.is_bare, has_input, not self.is_gateway, lasting_ns, self.trace_id


class _Pair(NamedTuple):
    """Two reports of what may be the same call, that of the application as `one`."""

    one: Report
    other: Report


def ids_of_calls(reading: Reading) -> tuple[str, ...]:
    """The ids by which a trace's model calls are found in reports of other traces; cheap enough to
    be called for every trace.
    """
    found: list[str] = []
    for step in reading.steps:
        if step.kind == "model":
            if step.response_id:
                found.append(step.response_id)
            found += _call_ids(step)
    return tuple(dict.fromkeys(found[:MAX_CALLS]))


def is_bare(reading: Reading) -> bool:
    """Whether a trace contains model calls, at most with a chain around them as gateways record it,
    and nothing that an agent does.
    """
    kinds = {x.kind for x in reading.steps}
    return kinds <= _BARE or (kinds <= _THIN and _is_gateway(reading))


def reports(reading: Reading, tree: Tree) -> Reports:
    """The model calls that a trace reports."""
    return _reports(reading, nested.model_calls(reading.steps, tree))


def repeated(traces: Iterable[Reports]) -> dict[str, str]:
    """The traces that only repeat model calls of others, by id, each with the id of the trace whose
    calls it repeats most.

    They are bare, and another trace of another emitter reports each of their calls that has an
    answer.
    """
    return {trace_id: pairs[0].one.trace_id for trace_id, pairs in _repeats(list(traces)).items()}


def without_repeats(readings: Sequence[Reading]) -> list[Reading]:
    """The readings without those that only repeat model calls; the calls that are repeated are
    completed from them.

    What the application's trace records of a call counts first. What it lacks, or what was cut in
    it, is taken from the other report, and so are the session and the user where its trace names
    none.
    """
    calls = [nested.model_calls(x.steps, Tree(x)) for x in readings]
    reports = list(map(_reports, readings, calls))
    repeats = _repeats(reports)
    if not repeats:
        return list(readings)
    at = {(x.span.trace_id, x.span.span_id): x for each in calls for x in each}
    others: defaultdict[str, list[tuple[Step, Step]]] = defaultdict(list)
    for one, other in sorted((x for pairs in repeats.values() for x in pairs), key=_nearness):
        others[one.trace_id].append(
            (at[one.trace_id, one.span_id], at[other.trace_id, other.span_id])
        )
    left = [
        (x, report.trace_id)
        for x, report in zip(readings, reports, strict=True)
        if report.trace_id not in repeats
    ]
    return [_completed(x, others[trace_id]) if trace_id in others else x for x, trace_id in left]


def _reports(reading: Reading, calls: Sequence[Step]) -> Reports:
    # of more, it is not known that all are repeated
    bare = len(calls) <= MAX_CALLS and is_bare(reading)
    found = tuple(_report(x) for x in calls[:MAX_CALLS])
    return Reports(
        reading.spans[0].trace_id if reading.spans else "",
        bare,
        bare and _is_gateway(reading),
        found,
    )


def _call_ids(step: Step) -> list[str]:
    requested = [x.call_id for m in step.output or () for x in m.calls if x.call_id]
    if requested or not step.input:
        return requested
    return [x.call_id for x in step.input[-1].results if x.call_id]


def _report(step: Step) -> Report:
    span = step.span
    return Report(
        span.trace_id,
        span.span_id,
        span.start_ns,
        max(span.start_ns, span.end_ns),
        (span.resource.service_name or "", span.scope.name),
        tuple(sorted(set(_call_ids(step)))[:_MAX_IDS]),
        CallIdentity.of(step, *_PARTS, as_digests=True),
    )


def _is_gateway(reading: Reading) -> bool:
    """Whether a trace shows that a gateway emitted it: by its service, its instrumentation or the
    request that it served.
    """
    known = {x.span_id for x in reading.spans}
    for span in reading.spans:
        if span.parent_span_id not in known:
            names = [span.name, span.scope.name, span.resource.service_name or ""]
            names += [str(span.attributes[x]) for x in _ROUTES if x in span.attributes]
            if any(map(_GATEWAYS.search, names)):
                return True
    return False


def _repeats(traces: Sequence[Reports]) -> dict[str, list[_Pair]]:
    """For each trace that only repeats others, by its id, the pairs of reports, those of the one it
    repeats most first.

    What repeats a trace that is itself a repetition, as behind a second gateway, repeats the
    application's.
    """
    by_rank = sorted(traces, key=lambda trace: trace.rank, reverse=True)
    best = _best_pairs(by_rank)
    found: dict[str, list[_Pair]] = {}
    # for each call of these, the report that repeats none
    first: dict[tuple[str, str], Report] = {}
    for trace in by_rank:
        if not trace.is_bare:
            continue
        originals: dict[Report, Report] = {}
        for call in trace.calls:
            pair = best.get((call.trace_id, call.span_id))
            if pair is not None:
                originals[call] = first.get((pair.one.trace_id, pair.one.span_id), pair.one)
        answered = [call for call in trace.calls if call.has_answer]
        if not answered or any(call not in originals for call in answered):
            continue
        for call, original in originals.items():
            first[call.trace_id, call.span_id] = original
        counts = Counter(originals[call].trace_id for call in answered)
        pairs = [_Pair(originals[call], call) for call in answered]
        found[trace.trace_id] = _most_repeated_first(pairs, counts)
    return found


def _most_repeated_first(pairs: Iterable[_Pair], counts: Mapping[str, int]) -> list[_Pair]:
    return sorted(pairs, key=lambda pair: (-counts[pair.one.trace_id], pair.one.trace_id))


def _best_pairs(by_rank: Sequence[Reports]) -> dict[tuple[str, str], _Pair]:
    """The pair of each report that repeats one, by its trace and span id.

    Each call of an application is repeated once by each emitter: the nearest in time.
    """
    best: dict[tuple[str, str], _Pair] = {}
    taken: set[tuple[str, str, tuple[str, str]]] = set()
    for pair in sorted(_pairs(by_rank), key=_nearness):
        place = pair.one.trace_id, pair.one.span_id, pair.other.emitter
        key = pair.other.trace_id, pair.other.span_id
        if key not in best and place not in taken:
            best[key] = pair
            taken.add(place)
    return best


def _pairs(by_rank: Sequence[Reports]) -> Iterator[_Pair]:
    """The reports that are of the same call: each of a bare trace with those of the traces before
    it.
    """
    known: defaultdict[str, list[Report]] = defaultdict(list)
    for trace in by_rank:
        for call in trace.calls if trace.is_bare else ():
            alike = {
                (x.trace_id, x.span_id): x
                for key in call.ids
                for x in _near(known.get(key, ()), call)
            }
            yield from (_Pair(x, call) for x in alike.values() if _is_same(x, call))
        for call in trace.calls:
            for key in call.ids:
                insort_right(known[key], call, key=_start)


def _near(calls: Sequence[Report], to: Report) -> Sequence[Report]:
    """The calls that start nearest to another one, of calls in order of time."""
    at = bisect_left(calls, to.start_ns, key=_start)
    return calls[max(0, at - _MAX_CALLS_OF_ID) : at + _MAX_CALLS_OF_ID]


def _start(call: Report) -> int:
    return call.start_ns


def _nearness(pair: _Pair) -> tuple[int, str, str, str, str]:
    """The key that sorts pairs by how near the starts and the ends of their two calls are."""
    one, other = pair
    distance_ns = abs(one.start_ns - other.start_ns) + abs(one.end_ns - other.end_ns)
    return distance_ns, one.trace_id, one.span_id, other.trace_id, other.span_id


def _is_same(one: Report, other: Report) -> bool:
    """Whether two reports are of the same call, that of the application as `one`.

    Both came from different emitters, have the response id in common, or the ids of tool calls and
    the whole input, and agree in what was answered. An id that another call may have by chance
    proves it only where both record the answer, and the same whole input, or no other question and
    the gateway's call lies within the application's. Instead of the answer its tokens will do where
    one service reports both, as of an SDK that has spans of its own.
    """
    answer = agree(one.identity, other.identity, "text", "calls")
    if one.emitter == other.emitter or answer is Verdict.DIFFERENT:
        return False
    shared = _shared_ids(one, other)
    if not shared:
        return False
    is_same_answer = answer is Verdict.SAME
    if are_unique(shared) or (is_same_answer and _have_same_input(one, other)):
        counts = agree(one.identity, other.identity, *COUNTS)
        return _overlap(one, other, MAX_SKEW_NS) and (
            is_same_answer or counts is not Verdict.DIFFERENT
        )
    if not is_same_answer and not _counted_alike(one, other):
        return False
    is_same_question = agree(one.identity, other.identity, "question") is not Verdict.DIFFERENT
    return is_same_question and _lies_within(other, one)


def _overlap(one: Report, other: Report, slack_ns: int) -> bool:
    return one.start_ns <= other.end_ns + slack_ns and other.start_ns <= one.end_ns + slack_ns


def _lies_within(inner: Report, outer: Report) -> bool:
    starts_within = outer.start_ns - _MAX_SLACK_NS <= inner.start_ns
    return starts_within and inner.end_ns <= outer.end_ns + _MAX_SLACK_NS


def _shared_ids(one: Report, other: Report) -> tuple[str, ...]:
    """The ids that show two calls to be one: that of the response; else, where one has none, those
    of tool calls.
    """
    response_id = one.identity.response_id
    if response_id and other.identity.response_id:
        return (response_id,) if response_id == other.identity.response_id else ()
    is_same = one.call_ids == other.call_ids and _have_same_input(one, other)
    return one.call_ids if is_same else ()


def _have_same_input(one: Report, other: Report) -> bool:
    return agree(one.identity, other.identity, "whole_input") is Verdict.SAME


def _counted_alike(one: Report, other: Report) -> bool:
    """Whether one service reports both, with the same tokens."""
    if one.emitter[0] != other.emitter[0]:
        return False
    ours, theirs = (
        (report.identity.input_tokens, report.identity.output_tokens) for report in (one, other)
    )
    return ours == theirs and None not in ours


def _completed(reading: Reading, pairs: Sequence[tuple[Step, Step]]) -> Reading:
    """A reading with what other reports of its model calls add to it."""
    shared = _shared(reading, [other for _, other in pairs])
    steps = {x.span.span_id: x for x in reading.steps}
    known = {one.span.span_id: one for one, _ in pairs}
    other_reports: dict[str, Step] = {}
    for one, other in pairs:
        span_id = one.span.span_id
        added = {**shared, **_added(known[span_id], other)}
        if added:
            steps[span_id] = changed(steps[span_id], **added)
            known[span_id] = changed(known[span_id], **added)
            other_reports.setdefault(span_id, other)
    return changed(
        reading,
        steps=tuple(steps[x.span.span_id] for x in reading.steps),
        other_reports=other_reports,
    )


def _shared(reading: Reading, others: Sequence[Step]) -> dict[str, Any]:
    """The session and the user that all other reports name, where a trace names none."""
    found: dict[str, Any] = {}
    for name in ("session_id", "user_id"):
        named = {getattr(x, name) for x in others} - {None}
        if len(named) == 1 and not any(getattr(x, name) for x in reading.steps):
            found[name] = named.pop()
    return found


_NO_NEWS = frozenset({"response_id", "previous_response_id", *TOKEN_DETAILS})
"""Facts by which reports were found, and that are parts of others: no news of the turn."""


def _added(step: Step, other: Step) -> dict[str, Any]:
    """The fields of a call that another report records, and that this one lacks or has only in
    part.
    """
    filled = merge.merged(step, other)
    facts = (x for x in merge.MODEL_FACTS if x not in _NO_NEWS)
    return {
        x: getattr(filled, x)
        for x in (*facts, "damaged")
        if getattr(filled, x) is not getattr(step, x)
    }
