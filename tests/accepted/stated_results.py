"""A tool's result in an object that names no call: by its role, its type or its outline it is the
message in which a result goes back to a model, whichever convention's attribute holds it.

The outlines are those of OpenAI's and Anthropic's messages, of LangChain's ToolMessage, of
Bedrock's tool result and of MCP's CallToolResult.
"""

from accepted import Form, span

_LEFT = '{"left": 4}'
_BLOCKS = [{"type": "text", "text": _LEFT}]
_RESULTS = {
    "a message by its role": {"role": "tool", "name": "stock", "content": _LEFT},
    "a function's message": {"role": "function", "name": "stock", "content": _LEFT},
    "a list of one message": [{"role": "tool", "content": _BLOCKS}],
    "Anthropic's block": {"type": "tool_result", "content": _BLOCKS},
    "OpenAI's item": {"type": "function_call_output", "output": _LEFT},
    "LangChain's message": {"type": "tool", "content": _LEFT, "additional_kwargs": {}, "id": None},
    "Bedrock's result": {"status": "success", "content": [{"json": {"left": 4}}]},
    "MCP's result": {"content": _BLOCKS, "structuredContent": {"left": 4}, "isError": False},
}
_ERRORS = {
    "Anthropic's block": {"type": "tool_result", "content": "locked", "is_error": True},
    "LangChain's message": {
        "type": "tool",
        "content": "locked",
        "status": "error",
        "tool_call_id": None,
    },
    "a message by its role": {"role": "tool", "content": "locked", "status": "error"},
    "Bedrock's result": {"status": "error", "content": [{"text": "locked"}]},
    "MCP's result": {"content": [{"type": "text", "text": "locked"}], "isError": True},
    "FastMCP's result": {
        "content": [{"type": "text", "text": "locked"}],
        "structuredContent": {"result": "locked"},
        "isError": True,
    },
}
_OWN = {
    "status": {"content": "locked", "status": "error"},
    "fields beside": {"role": "tool", "content": "a drill", "price": 30},
    "another name": {"role": "tool", "name": "drill", "content": "for wood"},
    "another role": {"role": "assistant", "content": "hello"},
    "a type of the tool's own": {"type": "tool", "content": "a drill", "status": "success"},
    "a product": {"type": "tool", "id": 17, "content": "a drill", "status": "sold out"},
    "a number for an id": {"role": "tool", "id": 17, "content": "a drill"},
    "a list for a role": {"role": ["tool"], "content": "a drill"},
    "a symbol": {"type": "function", "content": "def f(): ...", "status": "deprecated"},
    "a kept message": [{"role": "tool", "content": "4", "timestamp": "2026-05-01T10:00"}],
    "a message's own status": {"role": "function", "content": "timeout", "status": "failed"},
    "an origin": {"role": "tool", "output": "5", "origin": "Rome"},
    "an alert": {"status": "error", "content": [{"text": "disk full", "disk": "sda"}]},
    "a list of one alert": [{"status": "error", "content": [{"text": "disk full"}]}],
    "MCP's summary": {
        "content": [{"type": "text", "text": "Found 2 flights."}],
        "structuredContent": {"flights": [{"id": "LH123", "price": 340}]},
        "isError": False,
    },
    "documents": {"status": "success", "content": [{"text": "a", "url": "b"}]},
}


def _forms(name, result):
    yield (
        f"{name} in GenAI's attribute",
        span(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "stock",
                "gen_ai.tool.call.result": result,
            },
            parent="s1",
            at=2,
        ),
    )
    yield (
        f"{name} in OpenInference's attribute",
        span(
            {"openinference.span.kind": "TOOL", "tool.name": "stock", "output.value": result},
            parent="s1",
            at=2,
        ),
    )
    yield (
        f"{name} in Langfuse's attribute",
        span(
            {"langfuse.observation.type": "tool", "langfuse.observation.output": result},
            name="stock",
            parent="s1",
            at=2,
        ),
    )


def _table(results, facts):
    root = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"})
    for name, result in results.items():
        for form, tool in _forms(name, result):
            yield Form(form, [root, tool], facts(result))


FORMS = [
    *_table(_RESULTS, lambda _: {"results": [{"left": 4}], "errors": [None]}),
    *_table(_ERRORS, lambda _: {"results": ["locked"], "errors": ["locked"]}),
    *_table(_OWN, lambda result: {"results": [result], "errors": [None]}),
]
