"""Messages of Anthropic, AI SDK, the semantic conventions and Gemini."""

from message_form import (
    ANSWER,
    ASK,
    CALLED,
    DEFINITION,
    DONE,
    GIVEN,
    OFFERED,
    QUESTION,
    RESULT,
    RULES,
    SAID,
    TOOL,
    Messages,
    after_call,
)

FORMS: list[Messages] = [  # Anthropic
    after_call(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "stock", "input": GIVEN}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"left": 4}'}],
        },
        "Anthropic's blocks",
    ),
    after_call(
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "stock", "input": '{"sku": "lamp"}'}
            ],
            "tool_calls": [{"id": "c1", "type": "tool_call", "name": "stock", "args": GIVEN}],
        },
        TOOL,
        "Anthropic's blocks and LangChain's calls of the same",
    ),
    after_call(
        {
            "role": "assistant",
            "content": [{"type": "server_tool_use", "id": "c1", "name": "stock", "input": GIVEN}],
        },
        {
            "role": "user",
            "content": [
                {"type": "web_search_tool_result", "tool_use_id": "c1", "content": '{"left": 4}'}
            ],
        },
        "a tool that Anthropic runs",
    ),
    after_call(
        {
            "role": "assistant",
            "content": [
                {
                    "type": "mcp_tool_use",
                    "id": "c1",
                    "name": "stock",
                    "server_name": "s",
                    "input": GIVEN,
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "mcp_tool_result",
                    "tool_use_id": "c1",
                    "is_error": False,
                    "content": '{"left": 4}',
                }
            ],
        },
        "a tool of an MCP server that Anthropic calls",
    ),
    Messages(
        "Anthropic's request",
        {"system": [{"type": "text", "text": RULES}], "messages": [ASK]},
        SAID,
        {"system": RULES},
    ),
    Messages(
        "Anthropic's request with instructions as text",
        {"system": RULES, "messages": [ASK]},
        SAID,
        {"system": RULES},
    ),
    Messages(
        "Anthropic's response",
        [ASK],
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Four are left.", "signature": "s"},
                {"type": "text", "text": ANSWER},
            ],
            "stop_reason": "end_turn",
        },
        {"output": ANSWER, "reasoning": "Four are left."},
    ),
    Messages(
        "a result that failed",
        [
            ASK,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "stock", "input": GIVEN}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "is_error": True,
                        "content": "The list is locked.",
                    }
                ],
            },
        ],
        SAID,
        CALLED | {"errors": ["The list is locked."], "input": QUESTION},
    ),
    # AI SDK
    after_call(
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "c1", "toolName": "stock", "input": GIVEN}
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "stock",
                    "output": {"type": "json", "value": RESULT},
                }
            ],
        },
        "AI SDK's parts",
    ),
    after_call(
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "c1", "toolName": "stock", "args": GIVEN}
            ],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c1", "toolName": "stock", "result": RESULT}
            ],
        },
        "AI SDK's parts of version 4",
    ),
    after_call(
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "c1", "toolName": "stock", "input": GIVEN}
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "stock",
                    "output": {
                        "type": "content",
                        "value": [{"type": "text", "text": '{"left": 4}'}],
                    },
                }
            ],
        },
        "AI SDK's content of a result",
    ),
    after_call(
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "stock", "arguments": GIVEN}],
        },
        {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": "c1",
                    "response": {
                        "type": "content",
                        "value": [{"type": "text", "text": '{"left": 4}'}],
                    },
                }
            ],
        },
        "AI SDK's result in a part of the conventions",
    ),
    after_call(
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "stock", "arguments": GIVEN}],
        },
        {
            "role": "tool",
            "parts": [
                {
                    "type": "tool_call_response",
                    "id": "c1",
                    "response": {"type": "json", "value": RESULT},
                }
            ],
        },
        "AI SDK's JSON in a part of the conventions",
    ),
    # the conventions
    after_call(
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "stock", "arguments": GIVEN}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": RESULT}]},
        "parts of the conventions",
    ),
    after_call(
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": ["run", "call_1"], "name": "stock", "arguments": GIVEN}
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": ["run", "call_1"], "response": RESULT}],
        },
        "ids in lists",
        {"ids": ["call_1"]},
    ),
    Messages(
        "results and a question in one message",
        [
            {"role": "user", "parts": [{"type": "text", "content": "Look."}]},
            {
                "role": "assistant",
                "parts": [
                    {
                        "type": "tool_call",
                        "id": "c1",
                        "name": "stock",
                        "arguments": '{"sku": "lamp"}',
                    }
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"type": "tool_call_response", "id": "c1", "result": '{"left": 4}'},
                    {"type": "text", "content": QUESTION},
                ],
            },
        ],
        SAID,
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "a null among the parts",
        [{"role": "user", "parts": [None, {"type": "text", "content": QUESTION}, None]}],
        SAID,
        {"input": QUESTION},
    ),
    Messages(
        "reasoning among the parts",
        [ASK],
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Four."},
                    {"type": "text", "content": ANSWER},
                ],
                "finish_reason": "stop",
            }
        ],
        {"reasoning": "Four.", "output": ANSWER},
    ),
    # Gemini
    Messages(
        "Gemini's request",
        {"model": "m", "contents": QUESTION},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]},
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "Gemini's request with a configuration",
        {
            "contents": [
                {"role": "user", "parts": [{"text": QUESTION}]},
                {"role": "model", "parts": [{"function_call": {"name": "stock", "args": GIVEN}}]},
                {
                    "role": "user",
                    "parts": [{"function_response": {"name": "stock", "response": RESULT}}],
                },
            ],
            "config": {
                "system_instruction": RULES,
                "tools": [{"function_declarations": [DEFINITION]}],
            },
        },
        {"content": {"role": "model", "parts": [{"text": ANSWER}]}},
        OFFERED | DONE | {"system": RULES, "ids": [None]},
    ),
    Messages(
        "Gemini's thoughts",
        [ASK],
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"text": "Four.", "thought": True}, {"text": ANSWER}],
                    }
                }
            ]
        },
        {"reasoning": "Four.", "output": ANSWER},
    ),
    Messages(
        "code that Gemini runs",
        [ASK],
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"executable_code": {"language": "PYTHON", "code": "print(4)"}},
                            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "4"}},
                            {"text": ANSWER},
                        ],
                    }
                }
            ]
        },
        {
            "output": ANSWER,
            "calls": ["code_execution"],
            "arguments": [{"language": "PYTHON", "code": "print(4)"}],
            "results": [{"outcome": "OUTCOME_OK", "output": "4"}],
        },
    ),
    Messages(
        "Gemini's camel case",
        {
            "systemInstruction": {"parts": [{"text": RULES}]},
            "contents": [
                {"role": "user", "parts": [{"text": QUESTION}]},
                {"role": "model", "parts": [{"functionCall": {"name": "stock", "args": GIVEN}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "stock", "response": RESULT}}],
                },
            ],
            "tools": [{"functionDeclarations": [DEFINITION]}],
        },
        {"content": {"role": "model", "parts": [{"text": ANSWER}]}},
        OFFERED | DONE | {"system": RULES, "ids": [None]},
    ),
]
