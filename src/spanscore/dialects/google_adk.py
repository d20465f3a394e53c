"""Google's Agent Development Kit: the semantic conventions, and before them requests and responses of Gemini's API."""

import re
from dataclasses import replace
from typing import Any

from spanscore.dialects import semconv
from spanscore.dialects._arguments import arguments, tools
from spanscore.dialects._base import Context, Dialect, Facts, count, text
from spanscore.dialects._json import is_redacted, opened, structure
from spanscore.dialects._messages import messages, system_text
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, ToolResult

_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_GIVEN, _RETURNED = "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
_NUMBERED = re.compile(r"_\d+$")


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: agent, `call_llm`, `generate_content` or tool call."""
    facts = semconv.read(span, context)
    attributes = span.attributes
    facts["session_id"] = facts.get("session_id") or text(attributes.get("gcp.vertex.agent.session_id"))
    if facts["kind"] == "tool":
        _read_tool(attributes, facts)
    elif facts["kind"] == "model":
        _read_request(attributes, facts)
        _read_response(attributes, facts)
        names = {call.name for side in ("input", "output") for x in facts.get(side) or () for call in x.calls}
        for side in ("input", "output"):
            if facts.get(side):
                facts[side] = tuple(_without_envelopes(x, names) for x in facts[side])
    return facts


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given, returned = attributes.get(_GIVEN), attributes.get(_RETURNED)
    if facts.get("arguments") is None and given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(returned), True
    if facts.get("has_result"):
        facts["result"] = _content(facts["result"])


def _read_request(attributes: Attributes, facts: Facts) -> None:
    """What the model was given; `{}` where recording content is switched off."""
    request, damaged = structure(attributes.get(_REQUEST))
    if damaged:
        facts["damaged"] = facts.get("damaged", frozenset()) | {"input"}
    if not isinstance(request, dict):
        return
    if facts.get("input") is None and isinstance(request.get("contents"), list):
        facts["input"] = messages(request["contents"]).messages
    config = request.get("config")
    if not isinstance(config, dict):
        return
    instruction = config.get("system_instruction")
    if facts.get("system") is None and instruction is not None:
        facts["system"] = instruction if isinstance(instruction, str) else system_text(instruction)[0]
    if facts.get("tools") is None and isinstance(config.get("tools"), list):
        facts["tools"] = tools(config["tools"])


def _read_response(attributes: Attributes, facts: Facts) -> None:
    response, damaged = structure(attributes.get(_RESPONSE))
    if damaged:
        facts["damaged"] = facts.get("damaged", frozenset()) | {"output"}
    if not isinstance(response, dict):
        return
    if facts.get("output") is None and isinstance(response.get("content"), dict):
        facts["output"] = messages([response["content"]], "assistant").messages
    usage = response.get("usage_metadata")
    if isinstance(usage, dict):
        produced = [count(usage.get(x)) for x in ("candidates_token_count", "thoughts_token_count")]
        if facts.get("input_tokens") is None:
            facts["input_tokens"] = count(usage.get("prompt_token_count"))
        if facts.get("output_tokens") is None and produced[0] is not None:
            facts["output_tokens"] = sum(x for x in produced if x is not None)


def _without_envelopes(message: Message, names: set[str]) -> Message:
    """A message with its results opened, and without the ids that ADK makes up for a model that gives none.

    They are a tool's name and the place of the part in its message, so a call and its result differ in them.
    """
    if not message.calls and not message.results:
        return message
    calls = tuple(replace(x, call_id=_given_id(x.call_id, names)) for x in message.calls)
    results = tuple(ToolResult(_given_id(x.call_id, names), _content(x.value), x.error) for x in message.results)
    return replace(message, calls=calls, results=results)


def _given_id(identity: str | None, names: set[str]) -> str | None:
    made_up = identity is not None and _NUMBERED.sub("", identity) in names and _NUMBERED.search(identity)
    return None if made_up else identity


def _content(returned: Json) -> Json:
    """What a tool returned: ADK puts all that is no object into one, under `result`."""
    if isinstance(returned, dict) and returned.keys() == {"result"}:
        inner: Any = returned["result"]
        return opened(inner)
    return returned


DIALECT = Dialect(
    "google_adk", read, scopes=("gcp.vertex.agent",), keys=(_REQUEST, _GIVEN), marks=(b"gcp.vertex.agent", b"gen_ai.")
)
