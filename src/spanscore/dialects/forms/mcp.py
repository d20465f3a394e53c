"""Read a call of an MCP tool from the parameters and the result of its request, as the protocol has
them.
"""

from typing import Any

from spanscore.dialects.forms.arguments import arguments, failure, result
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts, text
from spanscore.model.span import Span, Value


def read_call(span: Span, parameters: Any, answer: Value) -> Facts:
    """The facts of a call.

    What a tool returns as structure, and as text for those that know no structure, is one.
    """
    request = parameters if isinstance(parameters, dict) else {}
    facts: Facts = {
        "kind": "tool",
        "tool_name": text(request.get("name")),
        "error": status_error(span),
    }
    if request.get("arguments") is not None:
        facts["arguments"] = arguments(request["arguments"])
    content = structure(answer).value
    if isinstance(content, dict) and "content" in content:
        facts["result"], facts["has_result"] = result(content["content"]), True
        if content.get("isError") is True:
            facts["error"] = facts["error"] or failure(facts["result"])
    return facts
