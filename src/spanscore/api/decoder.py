"""Evaluations from the API's messages of scores."""

from spanscore.api.v1 import score_pb2 as pb
from spanscore.model.json import loads
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    ScopeKind,
    Score,
    Skip,
    reaches,
)
from spanscore.model.trace import Target

_SCOPES: dict[int, ScopeKind] = {pb.SCOPE_TRACE: "trace", pb.SCOPE_SESSION: "session"}
_KINDS = {
    pb.EVALUATOR_KIND_LLM: "LLM",
    pb.EVALUATOR_KIND_CODE: "CODE",
    pb.EVALUATOR_KIND_HUMAN: "HUMAN",
}
_ADDED = ("threshold", "success")
"""What the JSON form of a score adds to its metadata."""


def decode_score(message: pb.Score) -> Evaluation:
    """The evaluation of a message, but for what messages do not have: resource, tally, and the test
    it was made for.

    Raises ValueError where `metadata_json` is no JSON.
    """
    usage = message.usage
    return Evaluation(
        scope=_SCOPES.get(message.scope, "trace"),
        subject_id=message.subject_id,
        metric=message.metric,
        outcome=_outcome(message),
        threshold=message.threshold if message.HasField("threshold") else None,
        scale=(message.scale.low, message.scale.high) if message.HasField("scale") else None,
        evaluator=_evaluator(message.evaluator),
        target=Target(message.trace_id, message.span_id, 0, round(message.latency_s * 1e9), {}),
        session_id=message.session_id if message.HasField("session_id") else None,
        agent_name=message.agent_name if message.HasField("agent_name") else None,
        service_name=message.service_name if message.HasField("service_name") else None,
        usage=JudgeUsage(
            usage.calls,
            usage.input_tokens,
            usage.output_tokens,
            usage.cost_usd if usage.HasField("cost_usd") else None,
            usage.cached,
        ),
        revision=message.revision,
        supersedes=message.supersedes if message.HasField("supersedes") else None,
        evaluated_at_ns=message.evaluated_at_ns,
        sampling=message.sampling,
        rule=message.rule if message.HasField("rule") else None,
        run=message.run if message.HasField("run") else None,
        session_key=message.session_key if message.HasField("session_key") else None,
    )


def _outcome(message: pb.Score) -> Outcome | Annotation:
    if message.status == pb.STATUS_FAILED:
        return Failure(message.error.type, message.error.message)
    if message.status == pb.STATUS_SKIPPED:
        return Skip(message.reason, message.skip_cause or "other")  # type: ignore[arg-type] # a newer server may have more causes
    metadata = loads(message.metadata_json or "{}")
    value = message.value if message.HasField("value") else None
    label = message.label if message.HasField("label") else None
    if message.evaluator.HasField("source") or value is None:
        passed = metadata.pop("success", None)
        return Annotation(value, label, message.reason, metadata, passed)
    by_threshold = (
        "pass" if message.HasField("threshold") and reaches(value, message.threshold) else "fail"
    )
    own = {name: x for name, x in metadata.items() if name not in _ADDED}
    return Score(value, message.reason, own, None if label in {None, by_threshold} else label)


def _evaluator(message: pb.Evaluator) -> Evaluator:
    names = ("model", "prompt_hash", "embedding", "source", "author", "certified")
    given = {name: getattr(message, name) for name in names if message.HasField(name)}  # type: ignore[arg-type] # checked by a test
    return Evaluator(_KINDS.get(message.kind), message.name, message.version, **given)  # type: ignore[arg-type] # likewise
