"""Evaluations as `gen_ai.evaluation.result` log events, joined to the evaluated span by its ids."""

from collections.abc import Iterable
from functools import lru_cache

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN, LogRecord, ScopeLogs

from spanscore.export import wording
from spanscore.export.resources import ByResource
from spanscore.model.score import Evaluation, Failure, Score, Skip
from spanscore.otlp import encode

EVENT_NAME = "gen_ai.evaluation.result"


def request(evaluations: Iterable[Evaluation], max_text_length: int) -> ExportLogsServiceRequest:
    """The events of `evaluations`; none for a skipped one."""
    message = ExportLogsServiceRequest()
    scopes: ByResource[ScopeLogs] = ByResource(message.resource_logs.add, lambda x: x.scope_logs.add())
    for evaluation in evaluations:
        if not isinstance(evaluation.outcome, Skip):
            _fill(scopes.of(evaluation.target.resource).log_records.add(), evaluation, max_text_length)
    return message


def _fill(record: LogRecord, evaluation: Evaluation, max_text_length: int) -> None:
    target, outcome = evaluation.target, evaluation.outcome
    record.time_unix_nano = record.observed_time_unix_nano = evaluation.evaluated_at_ns
    record.trace_id = bytes.fromhex(target.trace_id)
    record.span_id = bytes.fromhex(target.span_id)
    record.body.string_value = wording.summary(evaluation)
    add = record.attributes.add
    add(key="log.record.uid").value.string_value = evaluation.uid
    add(key="spanscore.revision").value.int_value = evaluation.revision
    reason = wording.cut(evaluation.reason, max_text_length)
    if reason:
        add(key="gen_ai.evaluation.explanation").value.string_value = reason
    if isinstance(outcome, Score):
        add(key="gen_ai.evaluation.score.value").value.double_value = outcome.value
        label = evaluation.label
        if label:
            add(key="gen_ai.evaluation.score.label").value.string_value = label
    elif isinstance(outcome, Failure):
        add(key="error.type").value.string_value = outcome.type
    if target.response_id is not None:
        add(key="gen_ai.response.id").value.string_value = encode.well_formed(target.response_id)
    if evaluation.scope == "session":
        session_id = encode.well_formed(evaluation.session_id or evaluation.subject_id)
        add(key="session.id").value.string_value = session_id
        add(key="gen_ai.conversation.id").value.string_value = session_id
    record.MergeFromString(_same_for_many(evaluation.metric, evaluation.scope, isinstance(outcome, Failure)))


@lru_cache(maxsize=1024)
def _same_for_many(metric: str, scope: str, failed: bool) -> bytes:
    """A serialised log record that holds what the events of one metric share."""
    severity = SEVERITY_NUMBER_WARN if failed else SEVERITY_NUMBER_INFO
    record = LogRecord(event_name=EVENT_NAME, severity_number=severity, severity_text="WARN" if failed else "INFO")
    encode.fill(
        record.attributes,
        {
            "event.name": EVENT_NAME,
            "gen_ai.evaluation.name": metric,
            "spanscore.emitted": True,
            "spanscore.scope": scope,
        },
    )
    return record.SerializeToString()
