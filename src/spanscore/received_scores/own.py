"""spanscore's own exported scores, read back."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import get_args

from spanscore.model.score import (
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    ScopeKind,
    Score,
    Skip,
    SkipCause,
)
from spanscore.model.span import Attributes, LogRecord, Resource, Span, Value
from spanscore.model.trace import DEFAULT_SCOPE, Target, Trial, scope_of, session_key
from spanscore.received_scores._given import count, digest, finite, json_object, number, text

SCOPE, EMITTED = "spanscore", "spanscore.emitted"
"""The instrumentation scope of all that spanscore exports, and the attribute that is true on it."""

_NAME, _VALUE = "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"
_LABEL, _EXPLANATION = "gen_ai.evaluation.score.label", "gen_ai.evaluation.explanation"
_EVENT = "gen_ai.evaluation.result"
_ON_SPAN = re.compile(r"spanscore\.(.+)\.(?:score|error)")
_SCALES = 2  # numbers that a scale has
_TRIAL = {
    "suite": "test.suite.name",
    "run": "test.suite.run.id",
    "case": "test.case.id",
    "status": "test.case.result.status",
}


def is_own(item: Span | LogRecord) -> bool:
    """Whether spanscore, this or another one, exported a span or log record."""
    return item.scope.name == SCOPE or item.attributes.get(EMITTED) is True


def read(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    session_scope: Sequence[str] = DEFAULT_SCOPE,
    superseded: bool = False,
) -> list[Evaluation]:
    """The scores in what spanscore exported, in the order of their evaluation, each once.

    Of a score that was exported in several forms the fullest counts: the span, then the event, then
    the attributes on the summary's span or the agent's own. Of several revisions the newest, unless
    `superseded` asks for all. What is not exported is not there: values are rounded to four digits,
    and only where the agent's spans are among `spans` the target has times. `session_scope` is that
    of the configuration. What evaluation runs scored again is left out.
    """
    known = list(spans)
    targets = {(x.trace_id, x.span_id): x for x in known if not is_own(x)}
    found = [*_of_spans(known, targets), *_of_events(logs, targets)]
    once = {x.uid: x for x in reversed(found)}
    scored = {_subject(x) for x in once.values()}
    briefly = [*_of_summaries(known, targets), *_of_attributes(targets.values())]
    found = [*once.values(), *(x for x in briefly if _subject(x) not in scored)]
    found = [_in_scope(x, session_scope) for x in found if x.run is None]
    found.sort(key=lambda x: (x.evaluated_at_ns, x.revision, x.uid))
    return found if superseded else _newest(found)


def _newest(scores: Iterable[Evaluation]) -> list[Evaluation]:
    """Of each subject's scores by one metric those of the last revision."""
    last: dict[tuple[object, ...], Evaluation] = {}
    for score in scores:
        run = None if score.trial is None else (score.trial.suite, score.trial.run)
        key = (score.scope, score.subject_id, score.metric, run)
        if key not in last or score.revision >= last[key].revision:
            last[key] = score
    return list(last.values())


def _subject(score: Evaluation) -> tuple[str, str, str, str]:
    return score.scope, score.target.trace_id, score.target.span_id, score.metric


def _of_spans(
    spans: Iterable[Span], targets: Mapping[tuple[str, str], Span]
) -> Iterator[Evaluation]:
    for span in spans:
        if is_own(span) and (metric := text(span.attributes, _NAME)):
            target = _target_of(span, targets)
            yield _evaluation(metric, span.attributes, target, span.span_id, 0)


def _of_events(
    logs: Iterable[LogRecord], targets: Mapping[tuple[str, str], Span]
) -> Iterator[Evaluation]:
    for log in logs:
        if log.event_name == _EVENT and is_own(log) and (metric := text(log.attributes, _NAME)):
            target = _target((log.trace_id, log.span_id), targets, log.resource, log.attributes)
            target = replace(target, response_id=text(log.attributes, "gen_ai.response.id"))
            uid = text(log.attributes, "log.record.uid") or digest(
                log.trace_id, log.span_id, metric, log.time_ns
            )
            yield _evaluation(metric, log.attributes, target, uid, log.time_ns)


def _target_of(span: Span, targets: Mapping[tuple[str, str], Span]) -> Target:
    """What a span is a child of, or links to."""
    ids = span.trace_id, span.parent_span_id
    if span.links and not span.parent_span_id:
        ids = span.links[0].trace_id, span.links[0].span_id
    return _target(ids, targets, span.resource, span.attributes, end_ns=span.end_ns)


def _target(
    ids: tuple[str, str],
    targets: Mapping[tuple[str, str], Span],
    resource: Resource,
    attributes: Attributes,
    *,
    end_ns: int = 0,
) -> Target:
    """The evaluated span.

    Where it is not among the `targets`, its evaluation spans share its end.
    """
    span = targets.get(ids)
    if span is not None:
        return Target(*ids, span.start_ns, span.end_ns, resource.attributes)
    latency_s = number(attributes, "spanscore.latency_s")
    if latency_s is None:
        return Target(*ids, 0, 0, resource.attributes)
    length_ns = max(0, round(latency_s * 1e9))
    end_ns = max(end_ns, length_ns)
    return Target(*ids, end_ns - length_ns, end_ns, resource.attributes)


def _evaluation(
    metric: str, attributes: Attributes, target: Target, uid: str, at_ns: int
) -> Evaluation:
    scope: ScopeKind = "session" if attributes.get("spanscore.scope") == "session" else "trace"
    session_id = text(attributes, "spanscore.session_id", "session.id")
    name = text(attributes, "spanscore.agent_trace_id") or target.trace_id
    service = target.resource.get("service.name")
    return Evaluation(
        scope=scope,
        subject_id=(session_id or name) if scope == "session" else name,
        metric=metric,
        outcome=_outcome(attributes),
        threshold=number(attributes, "spanscore.threshold"),
        scale=_scale(attributes.get("spanscore.scale")),
        evaluator=_evaluator(attributes),
        target=target,
        session_id=session_id,
        service_name=service if isinstance(service, str) else None,
        usage=_usage(attributes),
        revision=count(attributes, "spanscore.revision") or 1,
        supersedes=text(attributes, "spanscore.supersedes"),
        label_before=text(attributes, "spanscore.label_before"),
        evaluated_at_ns=_evaluated_at_ns(attributes) or at_ns,
        trial=_trial(attributes),
        sampling=number(attributes, "spanscore.sampling") or 1.0,
        rule=text(attributes, "spanscore.rule"),
        received_uid=uid,
        run=text(attributes, "spanscore.run.id"),
    )


def _outcome(attributes: Attributes) -> Outcome:
    reason = text(attributes, _EXPLANATION) or ""
    error = text(attributes, "error.type")
    if error is not None:
        _, _, message = (text(attributes, "output.value") or "").partition("\n")
        return Failure(error, reason or message)
    value = number(attributes, _VALUE)
    if value is None:
        causes: tuple[SkipCause, ...] = get_args(SkipCause)
        return Skip(
            reason,
            next((x for x in causes if x == attributes.get("spanscore.skip_cause")), "other"),
        )
    return Score(
        value, reason, json_object(attributes, "spanscore.metadata"), text(attributes, _LABEL)
    )


def _scale(value: Value) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != _SCALES:
        return None
    low, high = (finite(x) for x in value)
    return None if low is None or high is None else (low, high)


def _evaluator(attributes: Attributes) -> Evaluator:
    facts = {
        x: text(attributes, f"spanscore.evaluator.{x}")
        for x in ("model", "prompt_hash", "embedding")
    }
    kind, certified = (attributes.get(f"spanscore.evaluator.{x}") for x in ("kind", "certified"))
    return Evaluator(
        "LLM" if kind == "LLM" else "CODE" if kind == "CODE" else None,
        text(attributes, "spanscore.evaluator.name") or "",
        text(attributes, "spanscore.evaluator.version") or "",
        **facts,
        certified=certified if isinstance(certified, bool) else None,
    )


def _usage(attributes: Attributes) -> JudgeUsage:
    names = ("calls", "input_tokens", "output_tokens", "cached")
    counts = {name: count(attributes, f"spanscore.judge.{name}") or 0 for name in names}
    return JudgeUsage(**counts, cost_usd=number(attributes, "spanscore.judge.cost_usd"))


def _trial(attributes: Attributes) -> Trial | None:
    facts = {name: text(attributes, key) for name, key in _TRIAL.items()}
    return Trial(**facts) if any(facts.values()) else None


def _evaluated_at_ns(attributes: Attributes) -> int | None:
    at = text(attributes, "spanscore.evaluated_at")
    try:
        return None if at is None else round(datetime.fromisoformat(at).timestamp() * 10**6) * 1000
    except (ValueError, OverflowError):
        return None


def _of_summaries(
    spans: Iterable[Span], targets: Mapping[tuple[str, str], Span]
) -> Iterator[Evaluation]:
    """The scores that summaries list: value and label, where most have no span of their own and
    events are off.
    """
    for span in spans:
        if not is_own(span) or _NAME in span.attributes:
            continue
        target = _target_of(span, targets)
        for key in span.attributes:
            if found := _ON_SPAN.fullmatch(key):
                attributes = {**span.attributes, **_facts(found[1], span)}
                yield _evaluation(found[1], attributes, target, digest(span.span_id, found[1]), 0)


def _facts(metric: str, span: Span) -> dict[str, Value]:
    """What the attributes of one metric say, by the names that a score's own span has for it."""
    own = f"spanscore.{metric}"
    return {
        _VALUE: span.attributes.get(f"{own}.score"),
        _LABEL: span.attributes.get(f"{own}.label"),
        _EXPLANATION: span.attributes.get(f"{own}.reason"),
        "error.type": span.attributes.get(f"{own}.error"),
    }


def _of_attributes(spans: Iterable[Span]) -> Iterator[Evaluation]:
    """The scores that inline mode wrote on agents' spans.

    When they were given is not recorded: at the span's end.
    """
    for span in spans:
        for key in span.attributes:
            if found := _ON_SPAN.fullmatch(key):
                yield _on_span(found[1], span)


def _on_span(metric: str, span: Span) -> Evaluation:
    target = Target(
        span.trace_id, span.span_id, span.start_ns, span.end_ns, span.resource.attributes
    )
    session_id = text(span.attributes, "session.id", "gen_ai.conversation.id")
    attributes = {**_facts(metric, span), "session.id": session_id}
    uid = digest(span.trace_id, span.span_id, metric)
    return replace(_evaluation(metric, attributes, target, uid, span.end_ns), inline=True)


def _in_scope(score: Evaluation, names: Sequence[str]) -> Evaluation:
    """The score with the key of its session."""
    if score.session_id is None:
        return score
    key = session_key(score.session_id, scope_of(score.target.resource, names))
    return replace(
        score, session_key=key, subject_id=key if score.scope == "session" else score.subject_id
    )
