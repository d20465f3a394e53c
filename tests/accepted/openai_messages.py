"""Requests and responses of OpenAI's two APIs, whole and in parts, and those that look like
them.
"""

from message_form import (
    ANSWER,
    ASK,
    ASSISTANT,
    CALLED,
    DEFINITION,
    DONE,
    GIVEN,
    OFFERED,
    OPENAI_CALL,
    QUESTION,
    RESULT,
    RULES,
    SAID,
    SCHEMA,
    TOOL,
    Messages,
    after_call,
)

FORMS: list[Messages] = [  # OpenAI
    after_call(ASSISTANT, TOOL, "OpenAI's tool messages"),
    after_call(ASSISTANT, {**TOOL, "content": RESULT}, "a result that is an object"),
    after_call({**ASSISTANT, "tool_calls": [None, OPENAI_CALL]}, TOOL, "a null among the calls"),
    after_call(
        {
            **ASSISTANT,
            "tool_calls": [{**OPENAI_CALL, "function": {"name": "stock", "arguments": GIVEN}}],
        },
        TOOL,
        "arguments that are an object",
    ),
    after_call(
        {"role": "assistant", "toolCalls": [OPENAI_CALL]},
        {"role": "tool", "toolCallId": "c1", "content": RESULT},
        "calls under names in camel case",
    ),
    after_call(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": '[{"id": "c1", "name": "stock", "arguments": {"sku": "lamp"}}]',
        },
        TOOL,
        "calls as JSON in text",
    ),
    after_call(
        {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "stock", "arguments": '{"sku": "lamp"}'},
        },
        {"role": "function", "name": "stock", "content": '{"left": 4}'},
        "the functions of before tools",
        {"ids": [None]},
    ),
    after_call(
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "tool_call", "name": "stock", "args": GIVEN}],
        },
        TOOL,
        "LangChain's flat calls",
    ),
    after_call(
        {"role": "assistant", "tool_calls": [{"id": "c1", "toolName": "stock", "input": GIVEN}]},
        TOOL,
        "calls with a toolName",
    ),
    after_call(
        {
            "role": "assistant",
            "tool_calls": [{"toolCallId": "c1", "toolName": "stock", "args": GIVEN}],
        },
        TOOL,
        "calls with a toolCallId",
    ),
    after_call(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "stock", "input": "lamp"}}
            ],
        },
        TOOL,
        "a custom tool's call",
        {"arguments": ["lamp"]},
    ),
    Messages(
        "a tool's definition that is custom",
        {
            "messages": [ASK],
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "stock",
                        "description": "How many are left",
                        "format": {"type": "text"},
                    },
                }
            ],
        },
        SAID,
        {"tools": ["stock"], "descriptions": ["How many are left"]},
    ),
    Messages(
        "calls without a role around them",
        [ASK],
        {"tool_calls": [{"id": "c1", "toolName": "stock", "input": GIVEN}]},
        CALLED | {"requested": ["stock"]},
    ),
    Messages(
        "calls in a list by themselves",
        [ASK],
        [{"id": "c1", "name": "stock", "arguments": GIVEN, "type": "function"}],
        CALLED | {"requested": ["stock"]},
    ),
    Messages(
        "AI SDK's calls in a list by themselves",
        [ASK],
        [{"toolCallId": "c1", "toolName": "stock", "args": GIVEN}],
        CALLED | {"requested": ["stock"]},
    ),
    Messages(
        "OpenAI's calls in a list by themselves",
        [ASK],
        [OPENAI_CALL],
        CALLED | {"requested": ["stock"]},
    ),
    Messages(
        "OpenAI's response",
        [ASK],
        {
            "id": "r",
            "model": "m",
            "choices": [{"index": 0, "message": SAID, "finish_reason": "stop"}],
        },
        {"output": ANSWER},
    ),
    Messages("OpenAI's response with calls", [ASK], {"choices": [{"message": ASSISTANT}]}, CALLED),
    Messages(
        "a choice by itself",
        [ASK],
        {"index": 0, "message": SAID, "finish_reason": "stop"},
        {"output": ANSWER},
    ),
    Messages(
        "choices in a list",
        [ASK],
        [{"index": 0, "message": SAID, "finish_reason": "stop"}],
        {"output": ANSWER},
    ),
    Messages(
        "a refusal",
        [ASK],
        {"role": "assistant", "content": None, "refusal": "I may not."},
        {"output": "I may not."},
    ),
    Messages(
        "a refusal in a block",
        [ASK],
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I may not."}]},
        {"output": "I may not."},
    ),
    Messages(
        "a picture beside the question",
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": QUESTION},
                    {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
                ],
            }
        ],
        SAID,
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "tools on offer beside the messages",
        {"messages": [ASK], "tools": [{"type": "function", "function": DEFINITION}]},
        SAID,
        OFFERED | {"input": QUESTION},
    ),
    Messages("flat tools on offer", {"messages": [ASK], "tools": [DEFINITION]}, SAID, OFFERED),
    Messages(
        "Anthropic's tools on offer",
        {
            "messages": [ASK],
            "tools": [
                {"name": "stock", "description": "How many are left", "input_schema": SCHEMA}
            ],
        },
        SAID,
        OFFERED,
    ),
    Messages(
        "AI SDK's tools on offer",
        {
            "messages": [ASK],
            "tools": [
                {
                    "type": "function",
                    "name": "stock",
                    "description": "How many are left",
                    "inputSchema": SCHEMA,
                }
            ],
        },
        SAID,
        OFFERED,
    ),
    Messages(
        "tools whose description is short",
        {
            "messages": [ASK],
            "tools": [{"name": "stock", "desc": "How many are left", "parameters": SCHEMA}],
        },
        SAID,
        OFFERED,
    ),
    Messages(
        "tools on a message", [{**ASK, "tools": [DEFINITION]}], SAID, OFFERED | {"input": QUESTION}
    ),
    Messages(
        "tools on a message of an object",
        {"messages": [{**ASK, "tools": [DEFINITION]}]},
        SAID,
        OFFERED,
    ),
    Messages(
        "tools as messages of tools",
        [ASK, {"role": "tool", "content": {"type": "function", "function": DEFINITION}}],
        SAID,
        OFFERED | {"input": QUESTION, "calls": [], "output": ANSWER},
    ),
    Messages(
        "tools as messages of tools, of an object",
        {
            "messages": [
                ASK,
                {"role": "tool", "content": {"type": "function", "function": DEFINITION}},
            ]
        },
        SAID,
        OFFERED | {"input": QUESTION, "calls": []},
    ),
    Messages(
        "tools as messages of tools, flat",
        [
            ASK,
            {
                "role": "tool",
                "content": {
                    "name": "stock",
                    "description": "How many are left",
                    "input_schema": SCHEMA,
                },
            },
        ],
        SAID,
        OFFERED | {"input": QUESTION, "calls": []},
    ),
    Messages(
        "no tools on offer",
        {"messages": [ASK], "tools": []},
        SAID,
        {"tools": [], "input": QUESTION},
    ),
    # OpenAI's Responses
    Messages(
        "OpenAI's Responses",
        [
            ASK,
            {
                "type": "function_call",
                "id": "fc",
                "call_id": "c1",
                "name": "stock",
                "arguments": '{"sku": "lamp"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": '{"left": 4}'},
        ],
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Four are left."}]},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": ANSWER}],
            },
        ],
        DONE | {"reasoning": "Four are left."},
    ),
    Messages(
        "OpenAI's Responses, whole",
        {"input": QUESTION, "instructions": RULES, "tools": [{"type": "function", **DEFINITION}]},
        {
            "object": "response",
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": ANSWER}],
                }
            ],
        },
        OFFERED | {"input": QUESTION, "output": ANSWER, "system": RULES},
    ),
    Messages(
        "OpenAI's Responses, tools with the output",
        QUESTION,
        {
            "tools": [{"type": "function", **DEFINITION}],
            "output": [
                {"type": "function_call", "call_id": "c1", "name": "stock", "arguments": GIVEN}
            ],
        },
        OFFERED | CALLED | {"input": QUESTION},
    ),
    Messages(
        "arguments of Responses that are an object",
        [
            ASK,
            {"type": "function_call", "call_id": "c1", "name": "stock", "arguments": GIVEN},
            {"type": "function_call_output", "call_id": "c1", "output": RESULT},
        ],
        SAID,
        DONE,
    ),
    Messages(
        "a reasoning item with its content",
        [ASK],
        [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Look."}]}, SAID],
        {"reasoning": "Look.", "output": ANSWER},
    ),
]
