"""What models are given and answer, in the outlines that tracing tools accept: provider's,
framework's and mixed ones.

Each is a request's input and a response's output as parsed JSON, and the facts of the turn of that
one model call. The outlines are those that the tests of Langfuse (MIT, langfuse/langfuse:
packages/shared/src/server/ingestion/ normalizedIO and utils/chatml, extractToolsBackend) and of
LangWatch (langwatch/langwatch: app-layer/traces/ canonicalisation) list; the conversations are made
up here.
"""

from typing import Any, NamedTuple

SCHEMA = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
ASK = {"role": "user", "content": "Is the lamp in stock?"}
QUESTION, ANSWER = "Is the lamp in stock?", "Yes, four of them."
RULES = "Answer from the stock list."
SAID = {"role": "assistant", "content": ANSWER}
GIVEN = {"sku": "lamp"}
OPENAI_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "stock", "arguments": '{"sku": "lamp"}'},
}
CALLED = {"calls": ["stock"], "ids": ["c1"], "arguments": [GIVEN]}
DONE = CALLED | {"results": [{"left": 4}], "input": QUESTION, "output": ANSWER}
RESULT = {"left": 4}


class Messages(NamedTuple):
    name: str
    given: Any
    answered: Any
    facts: dict[str, Any]


def after_call(
    call: dict[str, Any], result: dict[str, Any], name: str, facts: dict[str, Any] | None = None
) -> Messages:
    """A question, a call, its result, and the answer to them."""
    return Messages(name, [ASK, call, result], SAID, DONE | (facts or {}))


ASSISTANT = {"role": "assistant", "content": "", "tool_calls": [OPENAI_CALL]}
TOOL = {"role": "tool", "tool_call_id": "c1", "content": '{"left": 4}'}
DEFINITION = {"name": "stock", "description": "How many are left", "parameters": SCHEMA}
OFFERED = {"tools": ["stock"], "descriptions": ["How many are left"], "schemas": [SCHEMA]}
