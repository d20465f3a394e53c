"""Evaluations as evaluation spans."""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export import wording
from spanscore.export.wording import ByResource, Provenance
from spanscore.model.score import (
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    ScopeKind,
    Score,
    Skip,
    Tally,
)
from spanscore.model.span import Value
from spanscore.model.trace import Target

Placement: TypeAlias = Literal["child", "linked"]
Which: TypeAlias = Literal["failing", "summary", "all"]

_LENGTH_NS = 10**6
_LENGTH_UNDER_NOTHING_NS = 1000
_SAME_REVISION_NS = _LENGTH_NS // 2 + 2000
"""By how much what adds to a revision starts before it: more than the places of a trace take, and
between those of a session.
"""
_LAST_NS = 2**64 - 1
"""The latest time that OTLP has a place for; a hostile span can end there."""

_RANKS = 128
"""Places that differ in the order of a trace's, or of a session's, evaluations; past it all start
at one time.
"""

_NO_USAGE = JudgeUsage()

_NAME = wording.Text(Span, lambda span, text: setattr(span, "name", text))
_KIND = Span(kind=Span.SPAN_KIND_INTERNAL).SerializeToString()
_START = wording.head(Span(start_time_unix_nano=1), 8)
_SPAN_ID = wording.head(Span(span_id=bytes(8)), 8)
_SUMMARY = wording.text_attribute(Span, "evaluation.summary")
_OUTPUT = wording.text_attribute(Span, "output.value")
_EVALUATED_AT = wording.text_attribute(Span, "spanscore.evaluated_at")
_VERDICT = wording.text_attribute(Span, "spanscore.verdict")
_VALUE = wording.Double(Span, "gen_ai.evaluation.score.value")
_EXPLANATION = wording.text_attribute(Span, "gen_ai.evaluation.explanation")
_METADATA = wording.text_attribute(Span, "spanscore.metadata")
_SKIP_CAUSE = wording.text_attribute(Span, "spanscore.skip_cause")
_ERROR_TYPE = wording.text_attribute(Span, "error.type")
_LABEL_BEFORE = wording.text_attribute(Span, "spanscore.label_before")
_SUPERSEDES = wording.text_attribute(Span, "spanscore.supersedes")
_provenance = Provenance(Span)


def request(
    evaluations: Iterable[Evaluation],
    placement: Placement,
    max_text_length: int,
    which: Which = "all",
) -> bytes:
    """The evaluation spans of `evaluations` as a serialised request: the summaries, and beside
    them spans for the scores that `which` names.

    None for one that left inline, and none for a skipped one that is not shown.
    """
    groups = ByResource()
    for evaluation in evaluations:
        for span in _spans(evaluation, placement, max_text_length, which):
            groups.of(evaluation.target.resource).append(span)
    return groups.request()


def has_any(evaluation: Evaluation, which: Which) -> bool:
    """Whether an evaluation has a span of its own, or that of the summary."""
    is_own = evaluation.is_shown and _is_among(evaluation, which)
    return not evaluation.inline and (_news(evaluation) is not None or is_own)


def _news(evaluation: Evaluation) -> Tally | None:
    """The tally that is sent with an evaluation."""
    return evaluation.tally if evaluation.tally is not None and evaluation.tally.is_news else None


def _spans(
    evaluation: Evaluation, placement: Placement, max_text_length: int, which: Which
) -> Iterator[bytes]:
    """The summary of all, where this evaluation has it, and the evaluation's own span."""
    if evaluation.inline:
        return
    if (tally := _news(evaluation)) is not None:
        yield _placed(evaluation, placement, evaluation.tally_uid, 0) + _tallied(evaluation, tally)
    if evaluation.is_shown and _is_among(evaluation, which):
        placed = _placed(evaluation, placement, evaluation.uid, evaluation.rank + 1)
        yield placed + _content(evaluation, max_text_length)


def _is_among(evaluation: Evaluation, which: Which) -> bool:
    if which != "failing":
        return which == "all"
    return "fail" in {evaluation.label, evaluation.label_before} or not isinstance(
        evaluation.outcome, Score
    )


def times(
    target: Target,
    scope: ScopeKind = "trace",
    revision: int = 1,
    rank: int = 0,
    *,
    same_revision: bool = False,
) -> tuple[int, int]:
    """Start and end, in Unix ns: at the end of the evaluated span and never of no length.

    At the time of the evaluation they would stretch the trace in every waterfall, from milliseconds
    to seconds. Viewers sort by start: each rank starts some microseconds after the one before it, a
    session's after a trace's, a later revision a millisecond before the one that it supersedes, and
    a later summary of the `same_revision` half of one before, as far as the evaluated span is long
    enough.
    """
    end_ns = max(target.end_ns, target.start_ns)
    if end_ns == target.start_ns:
        end_ns = min(end_ns + _LENGTH_UNDER_NOTHING_NS, _LAST_NS)
    begin_ns = min(target.start_ns, end_ns - 1)
    room_ns = min(_LENGTH_NS, end_ns - begin_ns)
    earlier_ns = (revision - 1) * _LENGTH_NS + (_SAME_REVISION_NS if same_revision else 0)
    before_ns = min(earlier_ns, end_ns - begin_ns - room_ns)
    place = min(rank, _RANKS - 1) + (_RANKS if scope == "session" else 0)
    return end_ns - before_ns - room_ns + place * (room_ns // (2 * _RANKS)), end_ns


def _placed(evaluation: Evaluation, placement: Placement, span_id: str, rank: int) -> bytes:
    """Ids and times."""
    target = evaluation.target
    tally = _news(evaluation)
    adds = tally is not None and tally.same_revision
    start_ns, end_ns = times(
        target, evaluation.scope, evaluation.revision, rank, same_revision=adds
    )
    # as protobuf writes a fixed64
    own = _SPAN_ID + bytes.fromhex(span_id) + _START + start_ns.to_bytes(8, "little")
    if placement == "child":
        return own + _child(target.trace_id, target.span_id, end_ns)
    span = Span(end_time_unix_nano=end_ns)
    span.trace_id = hashlib.sha256(f"linked\n{span_id}".encode()).digest()[:16]
    if target.span_id:
        span.links.add(
            trace_id=bytes.fromhex(target.trace_id), span_id=bytes.fromhex(target.span_id)
        )
    return own + span.SerializeToString()


@lru_cache(maxsize=64)  # the scores of a trace follow one another
def _child(trace_id: str, parent_id: str, end_ns: int) -> bytes:
    """Without a link to the parent: Jaeger would show FOLLOWS_FROM in place of CHILD_OF."""
    return Span(
        trace_id=bytes.fromhex(trace_id),
        parent_span_id=bytes.fromhex(parent_id),
        end_time_unix_nano=end_ns,
    ).SerializeToString()


def _tallied(evaluation: Evaluation, tally: Tally) -> bytes:
    """Name and attributes of the summary of all metrics."""
    summary = wording.tally_summary(tally)
    head = "spanscore" if evaluation.scope == "trace" else "spanscore session"
    revised = wording.revised(tally.label_before) if tally.supersedes else ""
    parts = [
        _NAME(f"{head}: {wording.tally(tally)}{revised}"),
        _KIND,
        _SUMMARY(summary),
        _same_for_tallies(
            evaluation.scope, evaluation.revision, tuple(x.metric for x in tally.failed)
        ),
    ]
    if evaluation.trial is not None:
        parts.append(wording.attributes(Span, wording.trial(evaluation)))
    if tally.label is not None:
        parts.append(_VERDICT(tally.label))
    for result in tally.results:
        as_score, as_label = _of_metric(result.metric)
        if result.value is not None:
            parts.append(as_score(wording.rounded(result.value, result.threshold)))
        if result.label is not None:
            parts.append(as_label(result.label))
    parts += (
        _OUTPUT("\n".join([summary, *wording.tally_lines(tally)])),
        _EVALUATED_AT(_iso(evaluation.evaluated_at_ns)),
        *_provenance(evaluation),
    )
    if tally.supersedes is not None:
        parts.append(_SUPERSEDES(tally.supersedes))
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _same_for_tallies(scope: ScopeKind, revision: int, failed: tuple[str, ...]) -> bytes:
    """What the summaries in which the same metrics failed share."""
    shared: dict[str, Value] = {
        "openinference.span.kind": "EVALUATOR",
        "gen_ai.operation.name": "evaluation",
        "output.mime_type": "text/plain",
        "spanscore.emitted": True,
        "spanscore.scope": scope,
        "spanscore.revision": revision,
        "spanscore.failed": list(failed),
    }
    return wording.attributes(Span, shared)


@lru_cache(maxsize=256)
def _of_metric(metric: str) -> tuple[wording.Double, wording.Text]:
    """The attributes with which a summary shows a metric's score, and its label."""
    return wording.Double(Span, f"spanscore.{metric}.score"), wording.text_attribute(
        Span, f"spanscore.{metric}.label"
    )


def _content(evaluation: Evaluation, max_text_length: int) -> bytes:
    """Name and attributes."""
    outcome, threshold, label = evaluation.outcome, evaluation.threshold, evaluation.label
    summary = wording.summary(evaluation)
    reason = wording.cut(evaluation.reason, max_text_length)
    parts = [
        _NAME(_name(evaluation)),
        _SUMMARY(summary),  # the first attribute: some backends show them as they come
        _same_for_many(
            evaluation.metric,
            label,
            evaluation.scope,
            evaluation.scale,
            threshold,
            evaluation.evaluator,
        ),
        _revision(evaluation.revision),
        _OUTPUT(f"{summary}\n{reason}" if reason else summary),
        _EVALUATED_AT(_iso(evaluation.evaluated_at_ns)),
    ]
    if isinstance(outcome, Failure):
        parts.append(_ERROR_TYPE(outcome.type))
    elif isinstance(outcome, Skip):
        parts += (_SKIP_CAUSE(outcome.cause), _EXPLANATION(reason))
    elif isinstance(outcome, Score):
        parts.append(_VALUE(wording.rounded(outcome.value, threshold)))
        if reason:
            parts.append(_EXPLANATION(reason))
        if metadata := wording.metadata(outcome.metadata, max_text_length):
            parts.append(_METADATA(metadata))
    parts += _provenance(evaluation)
    parts += _superseded(evaluation)
    if evaluation.trial is not None:
        parts.append(wording.attributes(Span, wording.trial(evaluation)))
    if evaluation.usage != _NO_USAGE:
        parts.append(wording.attributes(Span, wording.named("spanscore.judge.", evaluation.usage)))
    return b"".join(parts)


def _superseded(evaluation: Evaluation) -> Iterator[bytes]:
    """What it takes the place of."""
    if evaluation.supersedes is not None:
        yield _SUPERSEDES(evaluation.supersedes)
    if evaluation.label_before is not None:
        yield _LABEL_BEFORE(evaluation.label_before)


def _name(evaluation: Evaluation) -> str:
    """The verdict, then the metric: what is cut off at the edge of a narrow tree is the end."""
    name = (
        f"{wording.verdict(evaluation)}:"
        f" {evaluation.metric}{'' if evaluation.run is None else ' (run)'}"
    )
    return (
        name if evaluation.supersedes is None else name + wording.revised(evaluation.label_before)
    )


@lru_cache(maxsize=1024)
def _same_for_many(
    metric: str,
    label: str | None,
    scope: str,
    scale: tuple[float, float] | None,
    threshold: float | None,
    evaluator: Evaluator,
) -> bytes:
    """What the spans of one metric, label and evaluator share."""
    span = Span(kind=Span.SPAN_KIND_INTERNAL)
    shared: dict[str, Value] = {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": metric,
        "openinference.span.kind": "EVALUATOR",
        "output.mime_type": "text/plain",
        "spanscore.emitted": True,
        "spanscore.scope": scope,
    }
    if label:
        shared["gen_ai.evaluation.score.label"] = label
    shared |= wording.bounds(scale, threshold) | wording.evaluator(evaluator)
    return span.SerializeToString() + wording.attributes(Span, shared)


@lru_cache(maxsize=1024)
def _revision(revision: int) -> bytes:
    return wording.attributes(Span, {"spanscore.revision": revision})


def _iso(time_ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the microsecond."""
    seconds, rest_ns = divmod(time_ns, 10**9)
    return f"{_iso_second(seconds)}.{rest_ns // 1000:06d}+00:00"


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
