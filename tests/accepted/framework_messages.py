"""Messages of LangChain, tool messages inside others, and messages that events or Python print."""

import json
from typing import Any

from message_form import (
    ANSWER,
    ASK,
    ASSISTANT,
    CALLED,
    DONE,
    GIVEN,
    OPENAI_CALL,
    QUESTION,
    RESULT,
    RULES,
    SAID,
    TOOL,
    Messages,
    after_call,
)


def _lc(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", kind],
        "kwargs": kwargs,
    }


PART = {"type": "tool_call", "id": "c1", "name": "stock", "arguments": GIVEN}
BARE = [{"text": '{"left": 4}'}]
RESPONSE = {"type": "tool_call_response", "id": "c1", "response": BARE}
SHELF = [{"text": "four", "shelf": "Ä-7"}]
# blocks without a type, as Bedrock's API has them, in other outlines
BARE_TEXTS: list[Messages] = [
    Messages(
        "a question and an answer in blocks without a type",
        [{"role": "user", "content": [{"text": QUESTION}]}],
        [{"role": "assistant", "content": [{"text": ANSWER}]}],
        {"input": QUESTION, "output": ANSWER},
    ),
    after_call(ASSISTANT, {**TOOL, "content": BARE}, "a result in a block without a type"),
    after_call(
        ASSISTANT,
        {**TOOL, "content": [{"text": "four"}, {"text": "on shelf Ä-7"}]},
        "a result in two blocks without a type",
        {"results": ["four\non shelf Ä-7"]},
    ),
    after_call(
        {"role": "assistant", "parts": [PART]},
        {"role": "tool", "parts": [RESPONSE]},
        "a part with a result in a block without a type",
    ),
    after_call(
        {"role": "assistant", "parts": [PART]},
        {"role": "user", "parts": [RESPONSE]},
        "a user's part with a result in a block without a type",
    ),
    after_call(
        {"role": "assistant", "parts": [PART]},
        {"role": "tool", "id": "c1", "response": BARE},
        "a message with a result in a block without a type",
    ),
    after_call(
        ASSISTANT,
        {**TOOL, "content": SHELF},
        "a list of a tool's own objects that have a text",
        {"results": [SHELF]},
    ),
]

FORMS: list[Messages] = [
    *BARE_TEXTS,
    # LangChain
    Messages(
        "LangChain's serialized messages",
        [_lc("SystemMessage", content=RULES), _lc("HumanMessage", content=QUESTION)],
        [_lc("AIMessage", content=ANSWER)],
        {"system": RULES, "input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "LangChain's generation with its text beside its calls",
        [ASK],
        {
            "generations": [
                [
                    {
                        "text": "I look.",
                        "message": {"tool_calls": [{"name": "stock", "args": GIVEN, "id": "c1"}]},
                    }
                ]
            ]
        },
        CALLED | {"said": "I look.", "input": QUESTION},
    ),
    Messages(
        "LangChain's serialized calls",
        [
            _lc("HumanMessage", content=QUESTION),
            _lc(
                "AIMessage",
                content="",
                tool_calls=[{"id": "c1", "name": "stock", "args": GIVEN, "type": "tool_call"}],
            ),
            _lc("ToolMessage", content='{"left": 4}', tool_call_id="c1", name="stock"),
        ],
        _lc("AIMessage", content=ANSWER),
        DONE,
    ),
    Messages(
        "LangChain's failed tool",
        [
            _lc("HumanMessage", content=QUESTION),
            _lc(
                "AIMessage",
                content="",
                tool_calls=[{"id": "c1", "name": "stock", "args": GIVEN, "type": "tool_call"}],
            ),
            _lc("ToolMessage", content="The list is locked.", tool_call_id="c1", status="error"),
        ],
        _lc("AIMessage", content=ANSWER),
        CALLED | {"errors": ["The list is locked."]},
    ),
    Messages(
        "LangChain's types instead of roles",
        {
            "messages": [
                {"type": "human", "content": QUESTION},
                {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [OPENAI_CALL]}},
                {"type": "tool", "name": "stock", "content": RESULT, "tool_call_id": "c1"},
            ]
        },
        {"messages": [{"type": "ai", "content": ANSWER}]},
        DONE,
    ),
    Messages(
        "LangChain's types in a list",
        [{"type": "system", "content": RULES}, {"type": "human", "content": QUESTION}],
        {"type": "ai", "content": ANSWER},
        {"system": RULES, "input": QUESTION, "output": ANSWER},
    ),
    after_call(
        {
            "role": "assistant",
            "content": "",
            "additional_kwargs": {"tool_calls": [OPENAI_CALL], "refusal": None},
        },
        TOOL,
        "calls in additional_kwargs",
    ),
    # tool messages of other outlines
    after_call(
        ASSISTANT,
        {
            "role": "tool",
            "content": [{"type": "text", "text": '{"left": 4}'}],
            "tool_call_id": "c1",
        },
        "a result in blocks",
    ),
    after_call(
        ASSISTANT,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": {"content": '{"left": 4}', "tool_call_id": "c1", "status": "success"},
        },
        "a tool message inside a tool message",
    ),
    after_call(
        ASSISTANT,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": '{"content": "{\\"left\\": 4}", "name": "stock", "tool_call_id": "c1"}',
        },
        "a tool message as JSON inside a tool message",
    ),
    Messages(
        "a failed tool message inside a tool message",
        [
            ASK,
            ASSISTANT,
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": {
                    "content": "The list is locked.",
                    "tool_call_id": "c1",
                    "status": "error",
                },
            },
        ],
        SAID,
        CALLED | {"results": ["The list is locked."], "errors": ["The list is locked."]},
    ),
    after_call(
        ASSISTANT,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": {
                "output": {
                    "lc": 1,
                    "kwargs": {"content": '{"left": 4}', "tool_call_id": "c1", "status": "success"},
                }
            },
        },
        "LangChain's message as the output",
    ),
    after_call(
        ASSISTANT,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": {"output": {"kwargs": {"content": '{"left": 4}', "tool_call_id": "c1"}}},
        },
        "a message's fields as the output",
    ),
    Messages(
        "a failed tool message",
        [
            ASK,
            ASSISTANT,
            {
                "role": "tool",
                "content": "The list is locked.",
                "tool_call_id": "c1",
                "status": "error",
            },
        ],
        SAID,
        CALLED | {"errors": ["The list is locked."]},
    ),
    Messages(
        "calls under the role of a tool",
        [
            ASK,
            {"role": "tool", "content": json.dumps([OPENAI_CALL])},
            {"role": "tool", "content": '{"left": 4}'},
        ],
        SAID,
        DONE,
    ),
    # events and printed messages
    Messages(
        "Semantic Kernel's content of events",
        [
            {
                "role": "user",
                "gen_ai.event.content": (
                    '{"role": "user", "content": "Is the lamp in stock?", "tool_calls": []}'
                ),
            }
        ],
        {
            "gen_ai.event.content": (
                '{"message": {"role": "Assistant", "content": "Yes, four of them."}}'
            )
        },
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "a choice as an event",
        [ASK],
        {"event.name": "gen_ai.choice", "index": 0, "message": SAID},
        {"output": ANSWER},
    ),
    Messages(
        "printed messages",
        ["role='user' content='Is the lamp in stock?' name=None tool_call_id=None"],
        SAID,
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "a printed message",
        "role='user' content='Is the lamp in stock?' name=None tool_call_id=None",
        SAID,
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "messages without a role",
        [{"text": QUESTION}],
        {"text": ANSWER},
        {"input": QUESTION, "output": ANSWER},
    ),
]
