"""Spans that LangWatch takes: of its own SDKs, of the conventions with its attributes, of older
ones.

The attributes are those that its collector reads and its tests send (langwatch/langwatch,
langwatch/src/server/app-layer/traces/canonicalisation: extractors and __tests__).
"""

from accepted import ABSENT, Form, span
from message_form import ANSWER, ASK, DEFINITION, GIVEN, OFFERED, QUESTION, RESULT, RULES, SAID

TYPE, INPUT, OUTPUT = "langwatch.span.type", "langwatch.input", "langwatch.output"
BOTH = {"input": QUESTION, "output": ANSWER}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": [ASK],
    "gen_ai.output.messages": [SAID],
}
ASKED, ANSWERED = {"type": "text", "value": QUESTION}, {"type": "text", "value": ANSWER}
TOLD, SPOKEN = {"type": "chat_messages", "value": [ASK]}, {"type": "chat_messages", "value": [SAID]}
LLM = {TYPE: "llm", INPUT: TOLD, OUTPUT: SPOKEN}

FORMS = [
    Form("messages in their envelope", [span(LLM)], BOTH),
    Form(
        "messages without a type of span",
        [span({INPUT: TOLD, OUTPUT: SPOKEN})],
        BOTH | {"said": ANSWER},
    ),
    Form("text without a type of span", [span({INPUT: ASKED, OUTPUT: ANSWERED})], BOTH),
    Form("text without an envelope", [span({INPUT: QUESTION, OUTPUT: ANSWER})], BOTH),
    Form(
        "instructions among the messages",
        [
            span(
                {
                    **LLM,
                    INPUT: {
                        "type": "chat_messages",
                        "value": [{"role": "system", "content": RULES}, ASK],
                    },
                }
            )
        ],
        BOTH | {"system": RULES},
    ),
    Form(
        "an agent's text",
        [span({TYPE: "agent", INPUT: ASKED, OUTPUT: ANSWERED}, name="clerk")],
        BOTH | {"agent": "clerk"},
    ),
    Form("the conventions' messages on its span", [span({TYPE: "llm", **CHAT})], BOTH),
    Form(
        "the conventions' prompt on its span",
        [span({TYPE: "llm", "gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER})],
        BOTH,
    ),
    Form(
        "prompt and completion alone",
        [span({"gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER})],
        BOTH,
    ),
    Form(
        "a prompt of messages",
        [span({"gen_ai.prompt": {"messages": [ASK]}, "gen_ai.completion": ANSWER})],
        BOTH,
    ),
    Form(
        "a prompt of wrapped messages",
        [span({"gen_ai.prompt": [{"message": ASK}], "gen_ai.completion": ANSWER})],
        BOTH,
    ),
    Form(
        "older messages",
        [
            span(
                {
                    "llm.input_messages": [ASK],
                    "llm.output_messages": [SAID],
                    "llm.model_name": "m-1",
                }
            )
        ],
        BOTH | {"model": "m-1"},
    ),
    Form(
        "session and user",
        [span(LLM | {"langwatch.thread.id": "s-1", "langwatch.user.id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user of old",
        [span(LLM | {"langwatch.thread_id": "s-1", "langwatch.user_id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user without a prefix",
        [span(LLM | {"thread_id": "s-1", "user_id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user of the conventions' span",
        [span(CHAT | {"langwatch.thread.id": "s-1", "langwatch.user.id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user in metadata",
        [span(LLM | {"metadata": {"thread_id": "s-1", "user_id": "u-1"}})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user in metadata in camel case",
        [span(LLM | {"metadata": {"threadId": "s-1", "userId": "u-1"}})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user in its own metadata",
        [span(LLM | {"langwatch.metadata": {"thread_id": "s-1", "user_id": "u-1"}})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "its own attribute before metadata",
        [span(LLM | {"langwatch.thread.id": "s-1", "metadata": {"thread_id": "s-2"}})],
        {"session": "s-1"},
    ),
    Form(
        "metadata that are no object",
        [span(LLM | {"metadata": "not JSON {{"})],
        {"session": ABSENT, "user": ABSENT} | BOTH,
    ),
    Form(
        "metrics",
        [span(LLM | {"langwatch.metrics": {"prompt_tokens": 7, "completion_tokens": 3}})],
        {"tokens": (7, 3)},
    ),
    Form(
        "metrics in an envelope",
        [
            span(
                LLM
                | {
                    "langwatch.metrics": {
                        "type": "json",
                        "value": {"promptTokens": 7, "completionTokens": 3},
                    }
                }
            )
        ],
        {"tokens": (7, 3)},
    ),
    Form(
        "the conventions' usage before metrics",
        [
            span(
                LLM
                | {
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                    "langwatch.metrics": {"prompt_tokens": 1, "completion_tokens": 1},
                }
            )
        ],
        {"tokens": (7, 3)},
    ),
    Form(
        "metrics that are a list",
        [span(LLM | {"langwatch.metrics": [1, 2]})],
        {"tokens": (None, None)},
    ),
    Form(
        "instructions of the conventions",
        [span(CHAT | {"gen_ai.system_instructions": [{"type": "text", "content": RULES}]})],
        {"system": RULES},
    ),
    Form(
        "instructions of the conventions as text",
        [span(CHAT | {"gen_ai.system_instructions": RULES})],
        {"system": RULES},
    ),
    Form(
        "tools of the conventions",
        [span(CHAT | {"gen_ai.tool.definitions": [DEFINITION]})],
        OFFERED,
    ),
    Form(
        "a tool",
        [
            span({TYPE: "agent", INPUT: ASKED, OUTPUT: ANSWERED}),
            span(
                {
                    TYPE: "tool",
                    INPUT: {"type": "json", "value": GIVEN},
                    OUTPUT: {"type": "json", "value": RESULT},
                },
                name="stock",
                parent="s1",
                at=2,
            ),
        ],
        {"calls": ["stock"], "arguments": [GIVEN], "results": [RESULT]},
    ),
    Form(
        "a tool of the conventions",
        [
            span({TYPE: "agent", INPUT: ASKED, OUTPUT: ANSWERED}),
            span(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.id": "c1",
                    INPUT: {"type": "json", "value": GIVEN},
                    OUTPUT: {"type": "json", "value": RESULT},
                },
                parent="s1",
                at=2,
            ),
        ],
        {"calls": ["stock"], "ids": ["c1"], "arguments": [GIVEN], "results": [RESULT]},
    ),
    Form(
        "contexts",
        [
            span({TYPE: "agent", INPUT: ASKED, OUTPUT: ANSWERED}),
            span(
                {
                    TYPE: "rag",
                    INPUT: ASKED,
                    "langwatch.contexts": {"type": "json", "value": [{"content": "Four lamps."}]},
                },
                parent="s1",
                at=2,
            ),
        ],
        {"query": QUESTION, "documents": [{"content": "Four lamps."}]},
    ),
]
