"""AgentTrace, its expectations and Evaluation as messages."""

from typing import TYPE_CHECKING, Any

from spanscore.api.requests import name_of
from spanscore.api.v1 import agent_trace_pb2 as trace_pb
from spanscore.api.v1 import score_pb2 as score_pb
from spanscore.model.external import etag
from spanscore.model.json import Json, dumps, loads
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.span import without_headers
from spanscore.model.trace import (
    AgentTrace,
    Attachment,
    Completeness,
    Expected,
    ExpectedTool,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Target,
    Tool,
    ToolCall,
    Trial,
    TurnOutcome,
    Usage,
)
from spanscore.rpc import text_of
from spanscore.store.given_scores import Given, SubjectState

if TYPE_CHECKING:
    from google.protobuf.message import Message

_COMPLETENESS: dict[Completeness, "trace_pb.Completeness.ValueType"] = {
    "complete": trace_pb.COMPLETENESS_COMPLETE,
    "idle": trace_pb.COMPLETENESS_IDLE,
    "truncated": trace_pb.COMPLETENESS_TRUNCATED,
    "partial": trace_pb.COMPLETENESS_PARTIAL,
}
OUTCOMES: dict[TurnOutcome, "trace_pb.TurnOutcome.ValueType"] = {
    "unknown": trace_pb.TURN_OUTCOME_UNSPECIFIED,
    "answered": trace_pb.TURN_OUTCOME_ANSWERED,
    "failed": trace_pb.TURN_OUTCOME_FAILED,
    "cancelled": trace_pb.TURN_OUTCOME_CANCELLED,
    "waiting": trace_pb.TURN_OUTCOME_WAITING,
}
_OUTCOME_WORD = {number: word for word, number in OUTCOMES.items()}
_COMPLETENESS_WORD = {number: word for word, number in _COMPLETENESS.items()}
SCOPE = {"trace": score_pb.SCOPE_TRACE, "session": score_pb.SCOPE_SESSION}
STATUS = {
    "scored": score_pb.STATUS_SCORED,
    "skipped": score_pb.STATUS_SKIPPED,
    "failed": score_pb.STATUS_FAILED,
}
_KIND: dict[str | None, "score_pb.EvaluatorKind.ValueType"] = {
    None: score_pb.EVALUATOR_KIND_UNSPECIFIED,
    "LLM": score_pb.EVALUATOR_KIND_LLM,
    "CODE": score_pb.EVALUATOR_KIND_CODE,
    "HUMAN": score_pb.EVALUATOR_KIND_HUMAN,
}
_SUBJECT_STATE: dict[SubjectState, "score_pb.SubjectState.ValueType"] = {
    "stored": score_pb.SUBJECT_STATE_STORED,
    "not_stored": score_pb.SUBJECT_STATE_NOT_STORED,
    "ambiguous": score_pb.SUBJECT_STATE_AMBIGUOUS,
}
_INT64_MAX = 2**63 - 1


def encode_trace(trace: AgentTrace) -> trace_pb.AgentTrace:
    """The message of `trace`; whatever it holds, it can be sent."""
    tools, calls = trace.available_tools, trace.tool_calls
    return trace_pb.AgentTrace(
        name=name_of("traces", trace.id),
        id=trace.id,
        trace_ids=trace.trace_ids,
        root_span_id=trace.root_span_id,
        opening_span_id=trace.opening_span_id,
        target=_encode_target(trace.target),
        started_ns=trace.started_ns,
        ended_ns=trace.ended_ns,
        completeness=_COMPLETENESS[trace.completeness],
        session_id=text_of(trace.session_id),
        session_key=text_of(trace.session_key),
        user_id=text_of(trace.user_id),
        agent_name=text_of(trace.agent_name),
        service_name=text_of(trace.service_name),
        user_input=text_of(trace.user_input),
        final_output=text_of(trace.final_output),
        system_instructions=text_of(trace.system_instructions),
        available_tools=None
        if tools is None
        else trace_pb.ToolList(tools=map(_encode_tool, tools)),
        tool_calls=None
        if calls is None
        else trace_pb.ToolCallList(tool_calls=map(_encode_tool_call, calls)),
        model_calls=map(_encode_model_call, trace.model_calls),
        history=map(_encode_past_message, trace.history or ()),
        history_recorded=trace.history is not None,
        retrieved=map(_encode_retrieval, trace.retrieved),
        plan=text_of(trace.plan),
        damaged=trace.damaged,
        usage=trace_pb.TokenUsage(
            input_tokens=_int64(trace.usage.input_tokens),
            output_tokens=_int64(trace.usage.output_tokens),
        ),
        dialects=trace.dialects,
        unread_spans=trace.unread_spans,
        trial=None if trace.trial is None else _encode_trial(trace.trial),
        expected=None if trace.expected is None else encode_expected(trace.expected),
        outcome=OUTCOMES[trace.outcome],
        error=text_of(trace.error),
        attachments=map(_encode_attachment, trace.attachments),
    )


def decode_trace(message: trace_pb.AgentTrace) -> AgentTrace:
    """The inverse of `encode_trace`. Raises ValueError where a `*_json` field is no JSON."""
    return AgentTrace(
        trace_ids=tuple(message.trace_ids),
        root_span_id=_given(message, "root_span_id"),
        opening_span_id=message.opening_span_id,
        target=_decode_target(message.target),
        started_ns=message.started_ns,
        ended_ns=message.ended_ns,
        completeness=_COMPLETENESS_WORD.get(message.completeness, "idle"),
        session_id=_given(message, "session_id"),
        session_key=_given(message, "session_key"),
        user_id=_given(message, "user_id"),
        agent_name=_given(message, "agent_name"),
        service_name=_given(message, "service_name"),
        user_input=_given(message, "user_input"),
        final_output=_given(message, "final_output"),
        system_instructions=_given(message, "system_instructions"),
        available_tools=_decode_tools(message),
        tool_calls=_decode_tool_calls(message),
        model_calls=tuple(map(_decode_model_call, message.model_calls)),
        history=_decode_history(message),
        retrieved=tuple(map(_decode_retrieval, message.retrieved)),
        plan=_given(message, "plan"),
        damaged=tuple(message.damaged),
        usage=Usage(_given(message.usage, "input_tokens"), _given(message.usage, "output_tokens")),
        dialects=tuple(message.dialects),
        unread_spans=message.unread_spans,
        trial=_decode_trial(message.trial) if message.HasField("trial") else None,
        expected=decode_expected(message.expected) if message.HasField("expected") else None,
        outcome=_OUTCOME_WORD.get(message.outcome, "unknown"),
        error=_given(message, "error"),
        attachments=tuple(map(_decode_attachment, message.attachments)),
    )


def _encode_attachment(attachment: Attachment) -> trace_pb.Attachment:
    return trace_pb.Attachment(
        kind=text_of(attachment.kind),
        mime_type=text_of(attachment.mime_type),
        size_bytes=_int64(attachment.size_bytes),
        uri=text_of(attachment.uri),
        name=text_of(attachment.name),
    )


def _decode_attachment(message: trace_pb.Attachment) -> Attachment:
    named = {x: _given(message, x) for x in ("mime_type", "size_bytes", "uri", "name")}
    return Attachment(message.kind, **named)


def _decode_history(message: trace_pb.AgentTrace) -> tuple[PastMessage, ...] | None:
    if not message.history_recorded and not message.history:
        return None
    return tuple(map(_decode_past_message, message.history))


def _encode_trial(trial: Trial) -> trace_pb.Trial:
    return trace_pb.Trial(
        **{name: text_of(getattr(trial, name)) for name in Trial.__dataclass_fields__}
    )


def _decode_trial(message: trace_pb.Trial) -> Trial:
    return Trial(**{name: _given(message, name) for name in Trial.__dataclass_fields__})


def encode_score(evaluation: Evaluation) -> score_pb.Score:
    """The message of `evaluation`; whatever it holds, it can be sent."""
    outcome, judge = evaluation.outcome, evaluation.usage
    return score_pb.Score(
        name=name_of("scores", evaluation.uid),
        scope=SCOPE[evaluation.scope],
        status=STATUS[evaluation.status],
        metric=evaluation.metric,
        value=evaluation.value,
        scale=None
        if evaluation.scale is None
        else score_pb.Scale(low=evaluation.scale[0], high=evaluation.scale[1]),
        label=text_of(evaluation.label),
        threshold=evaluation.threshold,
        reason=text_of(evaluation.reason),
        metadata_json=text_of(dumps(evaluation.to_json()["metadata"])),
        trace_id=evaluation.target.trace_id,
        span_id=evaluation.target.span_id,
        session_id=text_of(evaluation.session_id),
        session_key=text_of(evaluation.session_key or evaluation.session_id),
        evaluator=score_pb.Evaluator(
            kind=_KIND[evaluation.evaluator.kind],
            name=evaluation.evaluator.name,
            version=evaluation.evaluator.version,
            model=evaluation.evaluator.model,
            prompt_hash=evaluation.evaluator.prompt_hash,
            embedding=evaluation.evaluator.embedding,
            source=text_of(evaluation.evaluator.source),
            author=text_of(evaluation.evaluator.author),
            certified=evaluation.evaluator.certified,
        ),
        usage=score_pb.JudgeUsage(
            calls=judge.calls,
            input_tokens=judge.input_tokens,
            output_tokens=judge.output_tokens,
            cost_usd=judge.cost_usd,
            cached=judge.cached,
        ),
        error=_encode_error(outcome) if isinstance(outcome, Failure) else None,
        revision=evaluation.revision,
        evaluated_at_ns=evaluation.evaluated_at_ns,
        subject_id=text_of(evaluation.subject_id),
        uid=evaluation.uid,
        supersedes=evaluation.supersedes,
        sampling=evaluation.sampling,
        rule=evaluation.rule,
        run=evaluation.run,
        latency_s=evaluation.latency_s,
        skip_cause=outcome.cause if isinstance(outcome, Skip) else None,
        agent_name=text_of(evaluation.agent_name),
        service_name=text_of(evaluation.service_name),
        turn_outcome=evaluation.turn_outcome,
        etag=etag(evaluation) if evaluation.is_external else "",
    )


def encode_given(given: Given) -> score_pb.Score:
    """The message of a score that others gave, which says whether what it is of is stored."""
    score = encode_score(given.score)
    score.subject_state = _SUBJECT_STATE[given.subject]
    return score


def _encode_error(failure: Failure) -> score_pb.EvaluationError:
    return score_pb.EvaluationError(type=failure.type, message=text_of(failure.message))


def _encode_target(target: Target) -> trace_pb.Target:
    return trace_pb.Target(
        trace_id=target.trace_id,
        span_id=target.span_id,
        start_ns=target.start_ns,
        end_ns=target.end_ns,
        resource_json=text_of(dumps(without_headers(target.resource))),
        response_id=text_of(target.response_id),
    )


def _decode_target(message: trace_pb.Target) -> Target:
    return Target(
        trace_id=message.trace_id,
        span_id=message.span_id,
        start_ns=message.start_ns,
        end_ns=message.end_ns,
        resource=loads(message.resource_json),
        response_id=_given(message, "response_id"),
    )


def _encode_tool(tool: Tool) -> trace_pb.Tool:
    return trace_pb.Tool(
        name=text_of(tool.name),
        description=text_of(tool.description),
        parameters_json=_json(tool.parameters),
    )


def _decode_tools(message: trace_pb.AgentTrace) -> tuple[Tool, ...] | None:
    if not message.HasField("available_tools"):
        return None
    return tuple(
        Tool(tool.name, _given(tool, "description"), _decode_json(tool, "parameters_json"))
        for tool in message.available_tools.tools
    )


def _encode_tool_call(call: ToolCall) -> trace_pb.ToolCall:
    return trace_pb.ToolCall(
        call_id=text_of(call.call_id),
        name=text_of(call.name),
        arguments_json=_json(call.arguments),
        result_json=_json(call.result),
        error=text_of(call.error),
        span_id=call.span_id,
        started_ns=call.started_ns,
        error_inferred=call.error_inferred,
        agent=text_of(call.agent),
        returned=call.returned,
        ended_ns=call.ended_ns,
    )


def _decode_tool_calls(message: trace_pb.AgentTrace) -> tuple[ToolCall, ...] | None:
    if not message.HasField("tool_calls"):
        return None
    return tuple(
        ToolCall(
            call_id=_given(call, "call_id"),
            name=call.name,
            arguments=_decode_json(call, "arguments_json"),
            result=_decode_json(call, "result_json"),
            error=_given(call, "error"),
            span_id=_given(call, "span_id"),
            started_ns=_given(call, "started_ns"),
            error_inferred=call.error_inferred,
            agent=_given(call, "agent"),
            returned=call.returned,
            ended_ns=_given(call, "ended_ns"),
        )
        for call in message.tool_calls.tool_calls
    )


def _encode_requested_call(call: RequestedCall) -> trace_pb.RequestedCall:
    return trace_pb.RequestedCall(
        call_id=text_of(call.call_id), name=text_of(call.name), arguments_json=_json(call.arguments)
    )


def _decode_requested_call(message: trace_pb.RequestedCall) -> RequestedCall:
    return RequestedCall(
        _given(message, "call_id"), message.name, _decode_json(message, "arguments_json")
    )


def _encode_model_call(call: ModelCall) -> trace_pb.ModelCall:
    return trace_pb.ModelCall(
        span_id=call.span_id,
        model=text_of(call.model),
        text=text_of(call.text),
        reasoning=text_of(call.reasoning),
        tool_calls=map(_encode_requested_call, call.tool_calls),
        input_tokens=_int64(call.input_tokens),
        output_tokens=_int64(call.output_tokens),
        started_ns=call.started_ns,
        ended_ns=call.ended_ns,
        response_id=text_of(call.response_id),
        utility=call.utility,
    )


def _decode_model_call(message: trace_pb.ModelCall) -> ModelCall:
    return ModelCall(
        span_id=message.span_id,
        model=_given(message, "model"),
        text=_given(message, "text"),
        reasoning=_given(message, "reasoning"),
        tool_calls=tuple(map(_decode_requested_call, message.tool_calls)),
        input_tokens=_given(message, "input_tokens"),
        output_tokens=_given(message, "output_tokens"),
        started_ns=_given(message, "started_ns"),
        ended_ns=_given(message, "ended_ns"),
        response_id=_given(message, "response_id"),
        utility=message.utility,
    )


def _encode_past_message(message: PastMessage) -> trace_pb.PastMessage:
    return trace_pb.PastMessage(
        role=text_of(message.role),
        text=text_of(message.text),
        tool_calls=map(_encode_requested_call, message.tool_calls),
        attachments=map(_encode_attachment, message.attachments),
    )


def _decode_past_message(message: trace_pb.PastMessage) -> PastMessage:
    return PastMessage(
        message.role,
        _given(message, "text"),
        tuple(map(_decode_requested_call, message.tool_calls)),
        tuple(map(_decode_attachment, message.attachments)),
    )


def _encode_retrieval(retrieval: Retrieval) -> trace_pb.Retrieval:
    return trace_pb.Retrieval(
        span_id=retrieval.span_id,
        query=text_of(retrieval.query),
        documents_json=[text_of(dumps(document)) for document in retrieval.documents],
    )


def _decode_retrieval(message: trace_pb.Retrieval) -> Retrieval:
    return Retrieval(
        message.span_id, _given(message, "query"), tuple(map(loads, message.documents_json))
    )


def _given(message: "Message", field: str) -> Any:
    """The value of an optional field, or None where it is not set."""
    return getattr(message, field) if message.HasField(field) else None


def _json(value: Json) -> str | None:
    return None if value is None else text_of(dumps(value))


def _decode_json(message: "Message", field: str) -> Json:
    return loads(getattr(message, field)) if message.HasField(field) else None


def _int64(number: int | None) -> int | None:
    """`number`, cut to what the field holds: a count in a trace may be any integer."""
    return None if number is None else max(-_INT64_MAX, min(number, _INT64_MAX))


_MAX_STEP = 2**32 - 1


def encode_expected(expected: Expected) -> trace_pb.Expected:
    """The message of `expected`; whatever it holds, it can be sent."""
    return trace_pb.Expected(
        answer=text_of(expected.answer),
        tools=map(_encode_expected_tool, expected.tools or ()),
        tools_stated=expected.tools is not None,
        outcomes=[text_of(x) or "" for x in expected.outcomes],
        in_order=expected.in_order,
    )


def decode_expected(message: trace_pb.Expected) -> Expected:
    """The inverse of `encode_expected`.

    Raises ValueError where `arguments_json` is no JSON object.
    """
    return Expected(
        answer=message.answer if message.HasField("answer") else None,
        tools=tuple(map(_decode_tool, message.tools)) if message.tools_stated else None,
        outcomes=tuple(message.outcomes),
        in_order=message.in_order if message.HasField("in_order") else None,
    )


def _encode_expected_tool(tool: ExpectedTool) -> trace_pb.ExpectedTool:
    return trace_pb.ExpectedTool(
        name=text_of(tool.name) or "",
        arguments_json=None if tool.arguments is None else text_of(dumps(tool.arguments)),
        step=None if tool.step is None or tool.step > _MAX_STEP else tool.step,
    )


def _decode_tool(message: trace_pb.ExpectedTool) -> ExpectedTool:
    arguments = loads(message.arguments_json) if message.HasField("arguments_json") else None
    if not isinstance(arguments, dict | None):
        raise ValueError(f"arguments_json of {message.name!r} is no JSON object")  # noqa: TRY004 - as of what is no JSON
    return ExpectedTool(message.name, arguments, message.step if message.HasField("step") else None)
