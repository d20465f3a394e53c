"""LlamaIndex's own OpenTelemetry handler: steps whose printed events are shortened, and model calls
as span events.
"""

import re
from typing import Any

from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import react_text
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import literal, opened, structure
from spanscore.dialects.forms.values import Facts, first_count, first_text, text
from spanscore.dialects.frameworks.llama_index import envelopes
from spanscore.model.span import Attributes, Span

_SUMMARY = "llamaindex.step.input_summary"
_CALL = re.compile(r"ToolCall\(tool_name='([^'\\]{1,200})', tool_kwargs=")
_CALL_END = re.compile(r", tool_id='([^'\\]{0,200})'\)")
_TOOL_SPANS = (".call_tool", ".acall", ".call")
"""A tool's step, and the tool inside of it: the step catches what the tool raises, so that only the
tool has failed.
"""

_STARTS, _ENDS = (
    ("LLMChatStartEvent", "LLMCompletionStartEvent"),
    ("LLMChatEndEvent", "LLMCompletionEndEvent"),
)
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
    if envelopes.is_agent_step(span):
        return {"kind": "agent", "agent_name": envelopes.agent_name(span.attributes.get(_SUMMARY))}
    return {"kind": "workflow" if not span.parent_span_id else "other"}


def _model(begun: Attributes, ended: Attributes) -> Facts:
    """A model call; a streamed one has no end."""
    facts: Facts = {"kind": "model", "model": text(begun.get("model_dict.model_name"))}
    facts["input"] = envelopes.chat_messages(structure(begun.get("messages")).value)
    if facts["input"] is None and isinstance(begun.get("prompt"), str):
        facts["input"] = envelopes.chat_messages([{"role": "user", "content": begun["prompt"]}])
    if "additional_kwargs.tools" in begun:
        facts["tools"] = tools(begun["additional_kwargs.tools"])
    answered = _response(ended)
    produced = None if answered is None else envelopes.chat_message(answered)
    facts["output"] = None if produced is None else (produced,)
    facts["response_id"] = identity(ended.get("response.raw.id"))
    facts["input_tokens"] = first_count(
        ended, (prefix + name for prefix in _USAGE for name in _INPUT_TOKENS)
    )
    facts["output_tokens"] = first_count(
        ended, (prefix + name for prefix in _USAGE for name in _OUTPUT_TOKENS)
    )
    react_text.complete(facts)
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
    nodes = structure(ended.get("nodes")).value
    found = nodes if isinstance(nodes, list) else []
    documents = tuple(_document(x) for x in found if isinstance(x, dict))
    return {"kind": "retrieval", "query": first_text(ended, _QUERIED), "documents": documents}


def _document(scored: dict[str, Any]) -> dict[str, Any]:
    """What was found, without what only places it in an index."""
    node = scored.get("node")
    fields = node if isinstance(node, dict) else {}
    return {"id": fields.get("id_"), "content": fields.get("text"), "score": scored.get("score")}


def _query(begun: Attributes, ended: Attributes) -> Facts:
    """A query engine, which finds documents and has a model answer from them."""
    question, answer = (
        first_text(begun, _QUERIES),
        first_text(ended, ("response.response", "response")),
    )
    return {"kind": "workflow", "input_text": question, "output_text": answer}


def _tool(span: Span) -> Facts:
    """A tool's step.

    The printed call is read where it is whole; its result, mostly cut, from the next input.
    """
    summary = span.attributes.get(_SUMMARY)
    called = _CALL.match(summary) if isinstance(summary, str) else None
    if called is None or not isinstance(summary, str) or envelopes.is_waiting(span):
        return {"kind": "other"}
    facts: Facts = {"kind": "tool", "tool_name": called[1], "error": status_error(span)}
    ends = list(_CALL_END.finditer(summary))
    given = (
        literal(summary[called.end() : ends[-1].start()])
        if ends and ends[-1].end() == len(summary)
        else None
    )
    if isinstance(given, dict):
        facts |= {"arguments": given, "call_id": ends[-1][1] or None}
    return facts


QUIRKS = envelopes.QUIRKS

DIALECT = Dialect(
    "llama_index", read, scopes=("llamaindex.opentelemetry.tracer",), prefilters=(b"llamaindex.",)
)
