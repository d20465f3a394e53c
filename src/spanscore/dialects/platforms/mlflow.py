"""MLflow's tracing SDKs: a type, inputs and outputs, each attribute encoded as JSON, even plain
text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, IgnoredSpans, Quirk
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    damaged,
    read_call,
    read_function,
    read_result,
    read_retrieval,
    recorded,
)
from spanscore.dialects.forms.provider_bodies import configured_tools, conversation, system_of
from spanscore.dialects.forms.streams import LAST, whole
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    add_damaged,
    as_object,
    identity,
    objects,
    opened,
    read_names,
    read_usage,
    structure,
    text,
)
from spanscore.model.span import Attributes, Event, Span, Value, changed
from spanscore.model.step import Message, MessageFact, StepKind

_TYPE, _SCOPE = "mlflow.spanType", "mlflow.tracing.provider"
_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_RECORDED = frozenset({_TYPE, _INPUTS, _OUTPUTS})
_KINDS: Final[dict[str, StepKind]] = {
    "LLM": "model",
    "CHAT_MODEL": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "CHAIN": "workflow",
    "WORKFLOW": "workflow",
    "TASK": "workflow",
    "UNKNOWN": "workflow",  # of a function that is decorated without a type
}
_BLOCK = '"type": "output_text"'
_ENVELOPES = frozenset({"modelId", "ResponseMetadata"})
_OPENAI_AGENTS, _RUN = "mlflow.openai.agent_run_root", "run_config"


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans, which it can be configured to write in the semantic
    conventions instead.
    """
    attributes = span.attributes
    if _RECORDED.isdisjoint(attributes):
        return _read_conventions(span, context)
    placed = _metadata(attributes)
    facts: Facts = {
        "kind": _KINDS.get(str(_value(attributes, _TYPE) or "UNKNOWN"), "other"),
        "agent_name": langchain_messages.agent_name(placed),
    }
    context.quirk.place(span, facts, context.outermost)
    if facts["kind"] == "workflow" and placed.get("lc_agent_name") == span.name:
        facts["kind"] = "agent"
    _read_session_and_user(attributes, placed, facts)
    kind = facts["kind"]
    given, returned = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
    if kind == "model":
        _read_model(span, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        _read_function(span, context.quirk, facts)
    return facts


def _read_function(span: Span, quirk: Quirk, facts: Facts) -> None:
    """An agent's or chain's function; MLflow's own agents are given a request of the Responses API
    as one object.
    """
    given, returned = span.attributes.get(_INPUTS), span.attributes.get(_OUTPUTS)
    called, answered = recorded(given).value, recorded(returned)
    facts["agent_name"] = _agent_name(span, quirk) if facts["kind"] == "agent" else None
    request = called.get("request") if isinstance(called, dict) and len(called) == 1 else None
    if isinstance(request, dict) and isinstance(request.get("input"), list):
        called, facts["agent_name"] = request, None  # it is called after its method
        read_names(as_object(request.get("context")), facts)
    read_function(called, answered, facts)
    facts["damaged"] = damaged(input=given, output=returned)
    _complete_function(span, answered.value, facts)


def _complete_function(span: Span, returned: Any, facts: Facts) -> None:
    """What a generator yielded, where that is all that it returned, or nothing else contains it."""
    streamed = chunks(span, returned) if span.events else None
    if streamed is not None and (returned is None or streamed.values is returned):
        complete_function(streamed, facts)


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(_value(attributes, "mlflow.spanFunctionName")) or text(span.name)
    facts["call_id"] = call_id(_value(attributes, "tool_call_id"))  # of LangChain's
    read_call(span, given, None if _is_halted(returned) else returned, facts)


def _is_halted(returned: Value) -> bool:
    """Whether a tool of OpenAI's agents only waits to be approved: the SDK then returns the tool,
    printed, and null.
    """
    if (
        not isinstance(returned, str)
        or not returned.startswith('{"tool": {"name": ')
        or '"run_item"' not in returned
    ):
        return False
    halted = structure(returned).value
    return (
        isinstance(halted, dict)
        and {"tool", "output", "run_item"} <= halted.keys()
        and halted["output"] is None
    )


def _read_conventions(span: Span, context: Context) -> Facts:
    """The facts of a span in the conventions, in which a type that has no operation is the
    operation's name.
    """
    facts, attributes = semconv.read(span, context), span.attributes
    facts["kind"] = _KINDS.get(str(attributes.get("gen_ai.operation.name")), facts["kind"])
    placed = _metadata(attributes)
    _read_session_and_user(attributes, placed, facts)
    facts["agent_name"] = facts.get("agent_name") or langchain_messages.agent_name(placed)
    if facts["kind"] == "tool":
        facts["call_id"] = facts.get("call_id") or call_id(_value(attributes, "tool_call_id"))
        read_result(attributes.get("gen_ai.tool.call.result"), facts)
    elif facts["kind"] in {"agent", "workflow"} and facts.get("output") is None:
        _complete_function(span, None, facts)
    if facts["kind"] == "model":
        facts["input"] = _with_blocks_opened(facts.get("input"))
        _complete_model(span, None, facts)
    return facts


def _with_blocks_opened(given: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages, in which MLflow prints a block of OpenAI's Responses as the text of the
    assistant.
    """
    return given and tuple(
        changed(message, text=_block_text(message.text))
        if message.role == "assistant" and _BLOCK in (message.text or "")
        else message
        for message in given
    )


def _block_text(text: str | None) -> str | None:
    block = opened(text)
    if not isinstance(block, dict) or block.get("type") != "output_text":
        return text
    inside = block.get("text")
    return inside if isinstance(inside, str) else text


def _metadata(attributes: Attributes) -> dict[str, Any]:
    """What LangChain hands to every tracer."""
    return as_object(_value(attributes, "metadata") if "metadata" in attributes else None)


def _read_session_and_user(attributes: Attributes, metadata: dict[str, Any], facts: Facts) -> None:
    """As MLflow's own attributes have them, LangChain's metadata, or the configuration of a run of
    OpenAI's agents.
    """
    facts["session_id"] = facts.get("session_id") or identity(
        _value(attributes, "mlflow.trace.session")
    )
    facts["user_id"] = identity(_value(attributes, "mlflow.trace.user"))
    read_names(metadata, facts)
    called = attributes.get("kwargs")
    if isinstance(called, str) and _RUN in called:
        run = as_object(as_object(opened(called)).get(_RUN))
        facts["session_id"] = facts["session_id"] or identity(run.get("group_id"))
        user = as_object(run.get("trace_metadata")).get("user_id")
        facts["user_id"] = facts["user_id"] or identity(user)


def _agent_name(span: Span, quirk: Quirk) -> str | None:
    """The name an agent was given; the function that runs agents has none, and is no agent's name
    itself.
    """
    return None if _OPENAI_AGENTS in span.attributes else quirk.agent_name(span)


def _value(attributes: Attributes, key: str) -> Any:
    return opened(attributes.get(key))


def _read_model(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    request, response = _opened_body(structure(given)), _opened_body(structure(returned))
    body = as_object(request.value)
    facts["input"] = conversation(request.value, "user") or _prompt(body)
    facts["output"] = conversation(response.value, "assistant")
    facts["damaged"] = cut(input=request, output=response)
    offered = attributes.get("mlflow.chat.tools", body.get("tools"))
    facts["tools"] = configured_tools(body) if offered is None else tools(offered)
    facts["system"] = system_of(body)
    facts["model"] = text(_value(attributes, "mlflow.llm.model")) or text(body.get("model"))
    read_usage(_value(attributes, "mlflow.chat.tokenUsage"), facts)
    _complete_model(span, response.value, facts)


def _prompt(body: dict[str, Any]) -> tuple[Message, ...] | None:
    """What a model is given as text: its prompt, or the only argument of a function that is marked
    as a model.
    """
    prompt = text(body.get("prompt") if len(body) > 1 else next(iter(body.values()), None))
    return None if prompt is None else (Message("user", prompt),)


def _opened_body(parsed: Parsed) -> Parsed:
    """A request or response that Bedrock's InvokeModel carries as JSON in text."""
    value = parsed.value
    if not isinstance(value, dict) or "body" not in value or _ENVELOPES.isdisjoint(value):
        return parsed
    body = structure(value["body"])
    if isinstance(body.value, dict):
        return Parsed(body.value, parsed.damaged or body.damaged)
    return parsed


def _complete_model(span: Span, returned: Any, facts: Facts) -> None:
    """What a model streamed, of which MLflow's own account leaves out the calls; else what the
    response contains.
    """
    streamed = chunks(span, returned)
    if streamed is not None:
        complete_model(streamed, facts)
    elif isinstance(returned, dict):
        add_response(returned, facts)


DIALECT = Dialect(
    "mlflow",
    read,
    scopes=(_SCOPE,),
    keys=(_TYPE, _INPUTS, _OUTPUTS),
    prefilters=(b"mlflow.span", _SCOPE.encode()),
    ignored=IgnoredSpans(keys=("mlflow.trace.sourceScorer",)),
)


_NAME = re.compile(r"mlflow\.chunk\.item\.(\d{1,9})")
_VALUE, _BEDROCK = "mlflow.chunk.value", "json"
_LISTED = "events"  # the attribute that had all chunks before there were events for them
_LOST: frozenset[MessageFact] = frozenset({"text", "calls"})


class Chunks(NamedTuple):
    """What was streamed, as far as events contain it; `first` is the place of the first one that is
    there.
    """

    values: Sequence[Any]
    first: int = 0
    is_damaged: bool = False

    @property
    def are_all(self) -> bool:
        """Whether nothing of the stream is missing."""
        return self.first == 0 and not self.is_damaged


def chunks(span: Span, outputs: Any) -> Chunks | None:
    """The chunks of a span's stream; None where it has none.

    An SDK keeps 128 events of a span and drops the first; what a decorated generator yielded is in
    its outputs as well.
    """
    found = sorted(_numbered(span), key=lambda x: x[0]) if span.events else []
    if not found:
        listed = structure(span.attributes.get(_LISTED))
        if isinstance(listed.value, list):
            return Chunks(listed.value, is_damaged=listed.damaged)
        return None
    if isinstance(outputs, list) and len(outputs) == len(found) + span.dropped_events_count:
        return Chunks(outputs)
    places = [x for x, _ in found]
    last = structure(found[-1][1])
    if isinstance(last.value, dict) and last.value.get("type") in LAST:
        return Chunks([last.value])
    parsed = [*(structure(x) for _, x in found[:-1]), last]
    has_gap = places != list(range(places[0], places[0] + len(places)))
    return Chunks([x.value for x in parsed], places[0], has_gap or any(x.damaged for x in parsed))


def _numbered(span: Span) -> Iterator[tuple[int, Any]]:
    """The values of the chunks, each with its place; those of Bedrock's have none but that they
    stand in.
    """
    dropped = span.dropped_events_count
    for at, event in enumerate(span.events):
        named = _NAME.fullmatch(event.name)
        if named is not None and _VALUE in event.attributes:
            yield int(named[1]), event.attributes[_VALUE]
        elif named is None and event.attributes.keys() == {_BEDROCK}:
            yield at + dropped, _named(event)


def _named(event: Event) -> Any:
    """An event of Bedrock's Converse under its name; those of its other API have their type."""
    value = structure(event.attributes[_BEDROCK]).value
    is_named = isinstance(value, dict) and value.get("type", "chunk") == event.name
    return value if is_named else {event.name: value}


def complete_model(streamed: Chunks, facts: Facts) -> None:
    """Put the streamed answer into a model call's facts."""
    response = whole(streamed.values)
    if response is None:
        return
    add_response(response, facts)
    streamed_messages, recorded = conversation(response, "assistant") or (), facts.get("output")
    if streamed.are_all and any(x.text or x.reasoning or x.calls for x in streamed_messages):
        facts["output"] = streamed_messages
    elif recorded:
        facts["output"] = _with_streamed_calls(
            recorded, streamed_messages, streamed, facts["finish_reasons"]
        )
    else:
        facts["output"] = tuple(changed(x, damaged=_LOST) for x in streamed_messages)
        add_damaged(facts, "output")


def add_response(response: Mapping[str, Any], facts: Facts) -> None:
    """What a response contains beside its messages, where nothing else does."""
    facts["response_id"] = facts.get("response_id") or identity(response.get("id"))
    facts["model"] = facts.get("model") or text(response.get("model"))
    if facts.get("input_tokens") is None and facts.get("output_tokens") is None:
        read_usage(response.get("usage"), facts)
    reasons = [x.get("finish_reason") for x in objects(response.get("choices"))]
    reasons += [response.get("stop_reason"), response.get("stopReason")]
    facts["finish_reasons"] = tuple(x for x in reasons if isinstance(x, str)) or facts.get(
        "finish_reasons", ()
    )


def _with_streamed_calls(
    recorded: tuple[Message, ...],
    streamed_messages: tuple[Message, ...],
    streamed: Chunks,
    reasons: tuple[str, ...],
) -> tuple[Message, ...]:
    """The text as MLflow combined it, with the calls that the chunks still contain."""
    calls = tuple(call for x in streamed_messages for call in x.calls)
    *earlier, last = recorded
    last = changed(last, text=last.text or None)
    has_requested = any("tool" in x or x == "function_call" for x in reasons)
    if streamed.is_damaged or (has_requested and not _begins_before_calls(streamed)):
        last = changed(last, damaged=last.damaged | {"calls"})
    return (*earlier, changed(last, calls=calls) if len(calls) > len(last.calls) else last)


def _begins_before_calls(streamed: Chunks) -> bool:
    """Whether the first chunk that is there comes before all calls, of which some come later."""
    have_calls = [
        any(isinstance(x, dict) and x.get("tool_calls") for x in _deltas(chunk))
        for chunk in streamed.values
    ]
    return not have_calls[0] and any(have_calls)


def _deltas(chunk: Any) -> Iterator[Any]:
    yield from (x.get("delta") for x in objects(as_object(chunk).get("choices")))


def complete_function(streamed: Chunks, facts: Facts) -> None:
    """Put the sum of what a generator yielded into its facts: texts, or the chunks of a model's
    answer.
    """
    if streamed.values and all(isinstance(x, str) for x in streamed.values):
        facts["output_text"], facts["output_json"] = "".join(streamed.values), None
    else:
        response = whole(streamed.values)
        if response is None:
            return
        facts["output"], facts["output_json"] = conversation(response, "assistant"), None
    if not streamed.are_all:
        add_damaged(facts, "output")
