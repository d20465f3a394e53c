"""LiteLLM: mixed conventions on a span that several calls may share, and a raw span for each call of a provider."""

from typing import Any

from spanscore.dialects import openllmetry
from spanscore.dialects._arguments import tools
from spanscore.dialects._base import Context, Dialect, Facts, count, text
from spanscore.dialects._json import structure
from spanscore.dialects._messages import system_text
from spanscore.dialects._requests import messages_of
from spanscore.model.span import Attributes, Span

_RAW = "raw_gen_ai_request"


def read(span: Span, context: Context) -> Facts:
    """The facts of a request, of the application's span that LiteLLM writes to, or of the provider's raw call.

    The application's span holds only the last of the calls that were made below it; their raw spans hold each.
    """
    if span.name == _RAW:
        return _read_raw(span.attributes)
    facts = openllmetry.read(span, context)
    facts["user_id"] = facts.get("user_id") or text(span.attributes.get("llm.user"))
    return facts


def _read_raw(attributes: Attributes) -> Facts:
    """A provider's request and response: each field an attribute `llm.{provider}.{field}`, often a Python literal."""
    fields: dict[str, Any] = {}
    for key, value in attributes.items():
        path = key.split(".", 2)
        if len(path) == 3 and path[0] == "llm" and path[2] in _FIELDS:
            fields[path[2]] = value
    asked, answered = structure(fields.get("messages", fields.get("contents"))), structure(_response(fields))
    facts: Facts = {
        "kind": "model",
        "model": text(fields.get("model")),
        "user_id": text(fields.get("user")),
        "response_id": text(fields.get("id")),
        "input": None if asked.value is None else messages_of(asked.value, "user"),
        "output": None if answered.value is None else _answer(answered.value),
        "tools": None if "tools" not in fields else tools(structure(fields["tools"]).value),
    }
    if text(fields.get("system")):
        facts["system"] = system_text(fields["system"])[0]
    usage = structure(fields.get("usage")).value
    if isinstance(usage, dict):
        facts["input_tokens"] = count(usage.get("prompt_tokens", usage.get("input_tokens")))
        facts["output_tokens"] = count(usage.get("completion_tokens", usage.get("output_tokens")))
    facts["damaged"] = frozenset(x for x, y in (("input", asked), ("output", answered)) if y.damaged)
    return facts


def _response(fields: dict[str, Any]) -> Any:
    return next((fields[x] for x in ("choices", "content", "output") if x in fields), None)


def _answer(response: Any) -> Any:
    """The messages of a response: OpenAI's choices, or content blocks."""
    if isinstance(response, list) and any(isinstance(x, dict) and "message" in x for x in response):
        return messages_of({"choices": response}, "assistant")
    return messages_of([{"role": "assistant", "content": response}], "assistant")


_FIELDS = frozenset(
    {"messages", "contents", "choices", "content", "output", "tools", "system", "usage", "model", "user", "id"}
)

DIALECT = Dialect(
    "litellm",
    read,
    scopes=("litellm",),
    keys=("litellm.call_id", "hidden_params"),
    marks=(b"litellm", b"hidden_params"),
)
