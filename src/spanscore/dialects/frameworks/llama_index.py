"""LlamaIndex's own OpenTelemetry handler: steps whose printed events are shortened, and model calls
as span events.
"""

import re
from typing import Any, NamedTuple

from spanscore.dialects.dialect import Context, Dialect, Quirk
from spanscore.dialects.forms import messages
from spanscore.dialects.forms.arguments import call_id, failure, tools
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    as_list,
    as_object,
    evaluated,
    first_count,
    first_text,
    identity,
    literal,
    objects,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import STATUS_ERROR, Attributes, Span, changed
from spanscore.model.step import Message

_OPENINFERENCE = "openinference.instrumentation.llama_index"
_OPENLLMETRY = "opentelemetry.instrumentation.llamaindex"

_PSEUDO_TOOLS = ("_prepare_chat_with_tools",)
_AGENT_STEP = ".run_agent_step"
_WAITS = "Waiting for event <class '"
_CONTEXT = re.compile(r"<[\w.]+\.Context object at 0x[0-9a-f]+>")
_AGENT = re.compile(r"current_agent_name='([^'\\]{1,200})'\)")


class ToolOutput(NamedTuple):
    """The content of a serialized ToolOutput: the tool's name, its result, and the error it
    states.
    """

    name: str | None
    value: Json
    error: str | None


def tool_output(value: object) -> ToolOutput | None:
    """The result in a serialized ToolOutput, as the tool returned it; None for what is none.

    The raw output of a failed tool is an exception that does not serialize: its text is read
    instead.
    """
    if not isinstance(value, dict) or not {"tool_name", "raw_output", "is_error"} <= value.keys():
        return None
    name, failed = value["tool_name"], value["is_error"] is True
    content = _texts(value.get("blocks"))
    if content is None and isinstance(value.get("content"), str):
        content = value["content"]  # before outputs had blocks
    result = (
        content if failed and content is not None else opened(value["raw_output"], scalars=False)
    )
    return ToolOutput(
        name if isinstance(name, str) else None, result, failure(result) if failed else None
    )


def chat_messages(items: object) -> tuple[Message, ...] | None:
    """The messages in a list of serialized ChatMessages; None for what is no list of them."""
    if not isinstance(items, list) or not all(isinstance(x, dict) and "role" in x for x in items):
        return None
    found = [chat_message(x) for x in items]
    return tuple(x for x in found if x is not None)


def chat_message(item: dict[str, Any]) -> Message | None:
    """A serialized ChatMessage, whose text and calls are blocks and whose ids stand among the
    additional arguments.
    """
    role = "assistant" if item.get("role") == "chatbot" else item.get("role")
    beside = item["additional_kwargs"] if isinstance(item.get("additional_kwargs"), dict) else {}
    return _answer_of_tool(item, beside) if role == "tool" else _model_message(item, role, beside)


def _model_message(item: dict[str, Any], role: Any, beside: dict[str, Any]) -> Message | None:
    blocks = objects(item.get("blocks"))
    shown = [
        {**x, "type": x.get("block_type")}
        for x in blocks
        if x.get("block_type") in ("text", "thinking")
    ]
    content = shown if blocks else item.get("content")
    return message({"role": role, "content": content, "tool_calls": _calls(blocks, beside)}, "user")


def _calls(blocks: list[dict[str, Any]], beside: dict[str, Any]) -> Any:
    calls = [
        {
            "id": block.get("tool_call_id"),
            "name": block.get("tool_name"),
            "arguments": block.get("tool_kwargs"),
        }
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    return calls or opened(beside.get("tool_calls"))


def _answer_of_tool(item: dict[str, Any], beside: dict[str, Any]) -> Message | None:
    blocks = objects(item.get("blocks"))
    content = _texts(blocks) if blocks else item.get("content")
    fields = {
        "role": "tool",
        "tool_call_id": beside.get("tool_call_id"),
        "content": "" if content is None else content,
        "tool_calls": _calls(blocks, beside),
    }
    answer = message(fields, "user")
    if answer is None:
        return None
    return changed(
        answer, results=tuple(changed(x, value=evaluated(x.value)) for x in answer.results)
    )


def agent_name(event: object) -> str | None:
    """The name of the agent at work, in the printed event that a step was given."""
    found = _AGENT.search(event) if isinstance(event, str) else None
    return found[1] if found else None


def is_agent_step(span: Span) -> bool:
    """Whether a span is one round of an agent: its model call lies inside, the tools it calls
    beside it.
    """
    return span.name.endswith(_AGENT_STEP)


def is_waiting(span: Span) -> bool:
    """Whether a tool ended since it waits for a person's input: it is run once more then."""
    return span.status_code == STATUS_ERROR and _WAITS in span.status_message


def _is_context(value: Json) -> bool:
    """Whether an argument is the workflow's context, printed, which the framework hands to a tool
    that wants it.
    """
    return isinstance(value, str) and _CONTEXT.fullmatch(value) is not None


def place_openinference(span: Span, facts: Facts, _outermost: bool) -> None:
    """A step of LlamaIndex's model class is neither a tool nor a model, though it is called so."""
    if facts["kind"] in {"tool", "model"} and span.name.endswith(_PSEUDO_TOOLS):
        facts["kind"] = "other"


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    if facts["kind"] == "tool":
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        # without flattened messages it is a request or response, printed as Python prints objects
        if "llm.input_messages.0.message.role" not in span.attributes:
            facts["input"] = None
        if "llm.output_messages.0.message.role" not in span.attributes:
            facts["output"] = None
        messages.complete_react(facts)
    elif facts["kind"] == "retrieval" and span.name.endswith("._retrieve"):
        facts["kind"] = "other"  # inside another one, which also records what was found
    elif is_agent_step(span):
        facts["kind"] = "agent"
        facts["agent_name"] = agent_name(span.attributes.get("input.value"))


def _complete_tool(span: Span, facts: Facts) -> None:
    given = facts.get("arguments")
    if isinstance(given, dict) and given.keys() == {"kwargs"} and isinstance(given["kwargs"], dict):
        facts["arguments"] = {k: v for k, v in given["kwargs"].items() if not _is_context(v)}
    _open_result(facts, facts.get("result"))
    if is_waiting(span):
        facts["kind"] = "other"


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenLLMetry's, in place: there all steps, tools and models too,
    are tasks.
    """
    attributes = span.attributes
    if attributes.get("gen_ai.operation.name") == "chat":
        facts["kind"] = "model"
        given = as_object(opened(attributes.get("traceloop.entity.input"))).get("kwargs")
        if facts.get("tools") is None and isinstance(given, dict) and "tools" in given:
            facts["tools"] = tools(given["tools"])
        messages.complete_react(facts)
        return
    fields = as_object(opened(attributes.get("traceloop.entity.output")))
    called, given = attributes.get("tool.name"), opened(attributes.get("tool.arguments"))
    # before these had attributes
    if called is None and "tool_kwargs" in fields and "tool_output" in fields:
        called, given = text(fields.get("tool_name")), fields["tool_kwargs"]
    if isinstance(called, str):
        facts |= {"kind": "tool", "tool_name": called, "arguments": given}
        facts["call_id"] = call_id(fields.get("tool_id"))
        _open_result(facts, fields.get("tool_output"))
    elif (answer := tool_output(fields)) is not None:
        given = fields.get("raw_input")
        facts |= {"kind": "tool", "tool_name": answer.name}
        facts["arguments"] = as_object(given).get("kwargs")
        _open_result(facts, fields)
    elif facts["kind"] == "workflow":
        _read_step(fields, facts)


def _open_result(facts: Facts, value: object) -> None:
    answer = tool_output(value)
    if answer is not None:
        facts["result"], facts["has_result"] = answer.value, True
        facts["error"] = facts.get("error") or answer.error


def _read_step(fields: dict[str, Any], facts: Facts) -> None:
    """What the agent was given, or its answer."""
    facts["input"] = facts.get("input") or chat_messages(fields.get("input"))
    response = as_object(fields.get("result")).get("response")
    if isinstance(response, dict) and (answer := chat_message(response)) is not None:
        facts["output"] = (answer,)
    # beside `result` it is the last agent's, to whom others handed over
    name = text(fields.get("current_agent_name"))
    facts["agent_name"] = facts.get("agent_name") or name
    if name and "response" in fields:
        facts |= {"kind": "agent", "input_text": None, "output_text": None}


def _texts(blocks: object) -> str | None:
    """The text of a list of blocks."""
    if not isinstance(blocks, list):
        return None
    texts = [x["text"] for x in blocks if isinstance(x, dict) and isinstance(x.get("text"), str)]
    return "\n".join(texts) if texts else None


QUIRKS = (
    Quirk(
        "llama_index",
        "openinference",
        (_OPENINFERENCE,),
        place=place_openinference,
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk("llama_index", "openllmetry", (_OPENLLMETRY,), complete=complete_openllmetry),
)


_SUMMARY = "llamaindex.step.input_summary"
_CALL = re.compile(r"ToolCall\(tool_name='([^'\\]{1,200})', tool_kwargs=")
_CALL_END = re.compile(r", tool_id='([^'\\]{0,200})'\)")
_TOOL_SPANS = (".call_tool", ".acall", ".call")
"""A tool's step, and the tool inside of it: the step catches what the tool raises, so that only the
tool has failed.
"""

_STARTS = ("LLMChatStartEvent", "LLMCompletionStartEvent")
_ENDS = ("LLMChatEndEvent", "LLMCompletionEndEvent")
_INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
_OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")
_QUERIES = ("query", "query.query_str")
_QUERIED = ("str_or_query_bundle", "str_or_query_bundle.query_str")
_USAGE = ("response.raw.usage.", "response.additional_kwargs.", "response.raw.")


def read(span: Span, _context: Context) -> Facts:
    """The facts of a span: a workflow, a step of it, or what runs inside a step."""
    events = {event.name: event.attributes for event in span.events}
    begun = next((events[x] for x in _STARTS if x in events), None)
    if begun is not None:
        return _model(begun, next((events[x] for x in _ENDS if x in events), {}))
    if "RetrievalEndEvent" in events:
        return _retrieval(events["RetrievalEndEvent"])
    if "QueryStartEvent" in events:
        return _query(events["QueryStartEvent"], events.get("QueryEndEvent", {}))
    if span.name.endswith(_TOOL_SPANS):
        return _tool(span)
    if is_agent_step(span):
        return {"kind": "agent", "agent_name": agent_name(span.attributes.get(_SUMMARY))}
    return {"kind": "workflow" if not span.parent_span_id else "other"}


def _model(begun: Attributes, ended: Attributes) -> Facts:
    """A model call; a streamed one has no end."""
    facts: Facts = {"kind": "model", "model": text(begun.get("model_dict.model_name"))}
    facts["input"] = chat_messages(structure(begun.get("messages")).value)
    if facts["input"] is None and isinstance(begun.get("prompt"), str):
        facts["input"] = chat_messages([{"role": "user", "content": begun["prompt"]}])
    if "additional_kwargs.tools" in begun:
        facts["tools"] = tools(begun["additional_kwargs.tools"])
    answered = _response(ended)
    produced = None if answered is None else chat_message(answered)
    facts["output"] = None if produced is None else (produced,)
    facts["response_id"] = identity(ended.get("response.raw.id"))
    facts["input_tokens"] = first_count(
        ended, (prefix + name for prefix in _USAGE for name in _INPUT_TOKENS)
    )
    facts["output_tokens"] = first_count(
        ended, (prefix + name for prefix in _USAGE for name in _OUTPUT_TOKENS)
    )
    messages.complete_react(facts)
    return facts


def _response(ended: Attributes) -> dict[str, Any] | None:
    """The answer as a ChatMessage; its fields are attributes of their own."""
    own = "response.message."
    if own + "role" in ended:
        beside = {"tool_calls": ended.get(own + "additional_kwargs.tool_calls")}
        return {
            "role": ended[own + "role"],
            "blocks": opened(ended.get(own + "blocks")),
            "additional_kwargs": beside,
        }
    answer = ended.get("response.text")
    return {"role": "assistant", "content": answer} if isinstance(answer, str) else None


def _retrieval(ended: Attributes) -> Facts:
    found = as_list(structure(ended.get("nodes")).value)
    documents = tuple(_document(x) for x in found if isinstance(x, dict))
    return {"kind": "retrieval", "query": first_text(ended, _QUERIED), "documents": documents}


def _document(scored: dict[str, Any]) -> dict[str, Any]:
    """What was found, without what only places it in an index."""
    fields = as_object(scored.get("node"))
    return {"id": fields.get("id_"), "content": fields.get("text"), "score": scored.get("score")}


def _query(begun: Attributes, ended: Attributes) -> Facts:
    """A query engine, which finds documents and has a model answer from them."""
    question = first_text(begun, _QUERIES)
    answer = first_text(ended, ("response.response", "response"))
    return {"kind": "workflow", "input_text": question, "output_text": answer}


def _tool(span: Span) -> Facts:
    """A tool's step.

    The printed call is read where it is whole; its result, mostly cut, from the next input.
    """
    summary = span.attributes.get(_SUMMARY)
    called = _CALL.match(summary) if isinstance(summary, str) else None
    if called is None or not isinstance(summary, str) or is_waiting(span):
        return {"kind": "other"}
    facts: Facts = {"kind": "tool", "tool_name": called[1], "error": status_error(span)}
    ends = list(_CALL_END.finditer(summary))
    given = None
    if ends and ends[-1].end() == len(summary):
        given = literal(summary[called.end() : ends[-1].start()])
    if isinstance(given, dict):
        facts |= {"arguments": given, "call_id": ends[-1][1] or None}
    return facts


DIALECT = Dialect(
    "llama_index", read, scopes=("llamaindex.opentelemetry.tracer",), prefilters=(b"llamaindex.",)
)
