"""Google's Genkit: actions with a subtype, their input and output as JSON."""

from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.decorated_calls import cut, damaged, read_call, read_function
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    as_list,
    as_object,
    count,
    first_identity,
    first_text,
    opened,
    structure,
    text,
)
from spanscore.model.span import Span, Value, changed
from spanscore.model.step import Message, StepKind

_TYPE, _SUBTYPE = "genkit:type", "genkit:metadata:subtype"
_SESSIONS = (
    "genkit:sessionId",
    "genkit:metadata:agent:sessionId",
    keys.SESSION_ID,
    keys.GEN_AI_CONVERSATION_ID,
)
# labels that an application gives a call (`telemetryLabels`), as those of sessions
_USERS = (keys.USER_ID, keys.ENDUSER_ID)
_CONTEXT = "genkit:metadata:context"
_CONTEXT_SESSIONS = ("sessionId", "session_id", "threadId", "conversationId")
_CONTEXT_USERS = ("userId", "user_id", "uid")
_KINDS: Final[dict[str, StepKind]] = {  # by subtype, which only actions have; else by type
    "model": "model",
    "background-model": "model",
    "tool": "tool",
    "tool.v2": "tool",
    "retriever": "retrieval",
    "agent": "agent",
    "flow": "workflow",
    "executable-prompt": "workflow",
    "dotprompt": "workflow",
    "helper": "workflow",  # a chat's `send`
    "util": "workflow",  # `generate`, the loop around a model and its tools
}


def read(span: Span, context: Context) -> Facts:
    """The facts of an action."""
    attributes = span.attributes
    kind = _KINDS.get(first_text(attributes, (_SUBTYPE, _TYPE)) or "", "other")
    called_in = structure(attributes.get(_CONTEXT)).value
    called_in = as_object(called_in)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS)
        or first_identity(called_in, _CONTEXT_SESSIONS),
        "user_id": first_identity(attributes, _USERS) or first_identity(called_in, _CONTEXT_USERS),
    }
    given, returned = attributes.get("genkit:input"), attributes.get("genkit:output")
    name = text(attributes.get("genkit:name")) or text(span.name)
    if kind == "model":
        facts["model"] = name
        _read_model(given, returned, facts)
    elif kind == "tool":
        facts["tool_name"] = name
        read_call(span, given, returned, facts)
        if attributes.get(_SUBTYPE) == "tool.v2":
            facts["result"] = _of_parts(facts.get("result"))
    elif kind == "retrieval":
        _read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = (
            name if kind == "agent" or attributes.get(_SUBTYPE) == "flow" else None
        )
        read_function(opened(given), Parsed(_answer(opened(returned))), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _read_retrieval(given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given).value, structure(returned).value
    query = None
    if isinstance(request, dict) and "query" in request:
        query = messages([request["query"]]).messages
    documents = as_object(response).get("documents")
    facts["query"] = query[0].text if query else None
    facts["documents"] = tuple(as_list(documents))


def _read_model(given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    if isinstance(request.value, dict):
        facts["input"] = messages(request.value.get("messages")).messages
        facts["tools"] = tools(request.value["tools"]) if "tools" in request.value else None
    if isinstance(response.value, dict):
        answer: Any = response.value.get("message")
        # before version 1
        if answer is None and isinstance(response.value.get("candidates"), list):
            answer = [x.get("message") for x in response.value["candidates"] if isinstance(x, dict)]
        facts["output"] = _with_text(
            messages(answer, "assistant").messages, response.value.get("raw")
        )
        usage = response.value.get("usage")
        if isinstance(usage, dict):
            facts["input_tokens"] = count(usage.get("inputTokens"))
            facts["output_tokens"] = _produced(usage)
        reason = text(response.value.get("finishReason"))
        facts["finish_reasons"] = (reason,) if reason else ()
    facts["damaged"] = cut(input=request, output=response)


def _answer(returned: Any) -> Any:
    """What an agent or flow returned: of an agent the message in the object that it puts around
    it.
    """
    is_turn = (
        isinstance(returned, dict)
        and isinstance(returned.get("message"), dict)
        and "finishReason" in returned
    )
    return {"messages": [returned["message"]]} if is_turn else returned


def _of_parts(result: Any) -> Any:
    """What a tool that returns parts has as its value, or else the parts: they stand in an object
    of its own.
    """
    if isinstance(result, dict) and result.keys() <= {"output", "content", "metadata"}:
        return next((result[x] for x in ("output", "content") if result.get(x) is not None), None)
    return result


def _with_text(answer: tuple[Message, ...] | None, raw: Any) -> tuple[Message, ...] | None:
    """The answer, with the text beside its tool calls, which the OpenAI plugin leaves in the
    provider's response.
    """
    if not answer or len(answer) > 1 or not answer[0].calls or answer[0].text is not None:
        return answer
    messages = messages_of(raw, "assistant") if isinstance(raw, dict) and "choices" in raw else None
    return (changed(answer[0], text=messages[0].text),) if messages else answer


def _produced(usage: dict[str, Any]) -> int | None:
    """Output tokens; Genkit counts those of thinking beside them."""
    produced = [count(usage.get(x)) for x in ("outputTokens", "thoughtsTokens")]
    return None if produced[0] is None else sum(x for x in produced if x is not None)


DIALECT = Dialect("genkit", read, keys=(_TYPE,), prefilters=(b"genkit:type",))
